package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/release"
)

func (a *cli) toolCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "tool",
		Short: "Write, test and release tools",
		Long: `Write functions and release them as tools. A version is immutable; prod, test and
further environments each serve one version; a rollback moves the release back.`,
		Example: `  toolroom tool new double -l python
  toolroom tool push double.py
  toolroom tool test double x=21
  toolroom tool release double --env prod
  toolroom tool rollback double`,
	}
	requireSubcommand(c)
	c.AddCommand(
		a.toolNewCommand(), a.toolPushCommand(), a.toolListCommand(), a.toolShowCommand(), a.toolDiffCommand(), a.toolTestCommand(), a.toolCaseCommand(),
		a.toolReleaseCommand(), a.toolPromoteCommand(), a.toolRollbackCommand(), a.toolShadowCommand(), a.toolDeprecateCommand(), a.toolLogCommand(),
		a.toolSyncCommand(), a.toolPullCommand(), a.toolAddCommand(),
	)
	return c
}

// author returns the name under which this person pushes and releases.
func (a *cli) author() string { return cmp.Or(a.User, "local") }

// findTool resolves the first argument to a versioned tool.
func findTool(ctx context.Context, r *app.App, spelling string) (s *release.Service, tool string, number int, err error) {
	s = r.Parts().Releases
	tool, number, err = s.Find(ctx, spelling)
	return s, tool, number, err
}

func (a *cli) toolPushCommand() *cobra.Command {
	var u release.Upload
	var from app.FromRunOptions
	var literals []string
	c := &cobra.Command{
		Use:   "push FILE | FOLDER | --from-run RUN --name NAME",
		Short: "Store code as new draft versions of its tools",
		Long: `Read the tools of a file, or of a folder with tool.yaml, and store a draft version of
each. Schemas and descriptions come from type hints and docstrings; the code is
inspected in a sandbox. If nothing has changed, no version is stored.

With --from-run, a program that ran in code mode becomes a function. Its inputs become
parameters, and so do the constants that --param names. A case is saved with the results
of the calls that the program made.`,
		Example: `  toolroom tool push double.py
  toolroom tool push ./invoices -m "round half up"
  toolroom tool push --from-run call_4xk2 --name open_issues --param repo='"toolroom/docs"'`,
		Args: arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if from.Run != "" {
				return a.pushFromRun(ctx, r, args, &from, literals, &u)
			}
			if len(args) == 0 {
				return usage("toolroom tool push double.py", "name a file or a folder, or use --from-run")
			}
			upload, err := a.readUpload(args[0])
			if err != nil {
				return err
			}
			upload.Namespace, upload.Message, upload.Base = u.Namespace, u.Message, u.Base
			upload.Wheels, upload.Tarballs = a.typedPath(u.Wheels), a.typedPath(u.Tarballs)
			if lock := filepath.Join(a.argumentPath(args[0]), "uv.lock"); isFile(lock) {
				a.screen.say("%s is not read: uv resolves the packages anew; write name==1.2.3 for an exact version", lock)
			}
			done := a.screen.showActivity("reading the tools of " + args[0] + packagesHint(&upload))
			pushed, err := r.Parts().Releases.Push(ctx, upload, a.author())
			done()
			if err != nil {
				return a.printErrorDiff(err)
			}
			return show(a, pushed, a.printPushed)
		}),
	}
	f := c.Flags()
	f.StringVar(&from.Run, "from-run", "", "make a function of this run of code:execute")
	f.StringVar(&from.Name, "name", "", "with --from-run: name of the function")
	f.StringVar(&from.Description, "description", "", "with --from-run: description of the function")
	f.StringArrayVar(&literals, "param", nil, "with --from-run: a constant that becomes a parameter, as NAME=JSON")
	f.StringVarP(&u.Message, "message", "m", "", "description of the change")
	f.StringVar(&u.Namespace, "namespace", "", "namespace of the tools (default fn)")
	f.StringVar(&u.Wheels, "wheels", "", "folder of wheels to take packages from, without a network")
	f.StringVar(&u.Tarballs, "tarballs", "", "folder of npm packages to take packages from, without a network")
	f.IntVar(&u.Base, "base", -1, "fail with conflict if there is a newer version than this; -1 does not check")
	a.jsonFlag(c, "print JSON")
	return c
}

// packagesHint returns a note that a push resolves packages, if its files seem to declare some.
func packagesHint(u *release.Upload) string {
	for name, text := range u.Files {
		if slices.Contains([]string{"requirements.txt", "pyproject.toml", "package.json"}, name) || strings.Contains(text, "dependencies") {
			return " and resolving its packages"
		}
	}
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// printErrorDiff prints the diff of a conflict, and returns its argument.
func (a *cli) printErrorDiff(err error) error {
	if c := (*release.Conflict)(nil); errors.As(err, &c) {
		a.screen.say("%s", strings.TrimRight(c.Diff, "\n"))
	}
	return err
}

func (a *cli) printPushed(pushed []release.Pushed) error {
	for _, p := range pushed {
		id, err := toolroom.ParseID(p.Tool)
		if err != nil {
			return err
		}
		if !p.Created {
			a.screen.say("%s: no changes; version %d is %s", p.Tool, p.Number, p.Status.Word(p.Reason))
			continue
		}
		a.screen.say("%s: version %d (%s)%s", p.Tool, p.Number, p.Digest[:12], formatCases(p.Cases))
		a.screen.say("  try it: toolroom tool test %s %s", id.Name, exampleWords(p.Spec.InputSchema))
		a.screen.say("  release it: toolroom tool release %s", id.Name)
	}
	return nil
}

func formatCases(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + count(n, "case")
}

// exampleWords returns example arguments for toolroom tool test. They are never empty, because
// without arguments it would run the saved cases.
func exampleWords(input json.RawMessage) string {
	return cmp.Or(catalog.ExampleWords(input), "'{}'")
}

// maxUpload bounds a file that is read for an upload. The inspection has a lower limit, and an
// error that explains it.
const maxUpload = 4 << 20

// readUpload reads a file, or the files of a folder.
func (a *cli) readUpload(path string) (release.Upload, error) {
	path = a.argumentPath(path)
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		hint := "toolroom tool new NAME -l python writes a starter"
		if beside, _ := filepath.Glob(path + ".*"); len(beside) > 0 {
			hint = "did you mean " + filepath.Base(beside[0]) + "?"
		}
		return release.Upload{}, toolroom.Errorf(toolroom.CodeNotFound, "there is no %s", path).WithHint("%s", hint)
	}
	if err != nil {
		return release.Upload{}, toolroom.Errorf(toolroom.CodeNotFound, "cannot read %s: %w", path, err).WithHint("toolroom tool new NAME -l python writes a starter")
	}
	u := release.Upload{Files: map[string]string{}, Base: -1, Folder: path}
	if !info.IsDir() {
		u.Folder = filepath.Dir(path)
		text, err := readText(path)
		if err != nil {
			return u, err
		}
		u.File = filepath.Base(path)
		u.Files[u.File] = text
		for _, beside := range []string{"requirements.txt", "pyproject.toml"} {
			if more, err := os.Lstat(filepath.Join(filepath.Dir(path), beside)); err == nil && more.Mode().IsRegular() {
				if u.Files[beside], err = readText(filepath.Join(filepath.Dir(path), beside)); err != nil {
					return u, err
				}
			}
		}
		return u, nil
	}
	err = filepath.WalkDir(path, func(at string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(path, at)
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if at != path && (strings.HasPrefix(base, ".") || base == "__pycache__" || base == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasPrefix(base, ".") || !slices.Contains(uploadedExtensions, filepath.Ext(base)) && !isCode(at) {
			return nil
		}
		u.Files[filepath.ToSlash(name)], err = readText(at)
		return err
	})
	if text, ok := u.Files[release.CasesFile]; ok && err == nil {
		delete(u.Files, release.CasesFile)
		u.Cases, err = release.ReadCases([]byte(text))
	}
	return u, err
}

// uploadedExtensions are the extensions of the files that are uploaded with the code of a
// folder.
var uploadedExtensions = []string{".json", ".yaml", ".toml", ".txt", ".md"}

// isCode reports whether a file is code: by its extension, or because it begins with #!.
func isCode(path string) bool {
	if slices.Contains([]string{".py", ".js", ".mjs", ".ts", ".mts", ".wasm"}, filepath.Ext(path)) {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	first := make([]byte, 2)
	_, err = io.ReadFull(f, first)
	return err == nil && string(first) == "#!"
}

// maxModuleFile bounds a WebAssembly module, which is packed for the upload.
const maxModuleFile = 64 << 20

// readText returns a file as a text of an upload.
func readText(path string) (string, error) {
	isModule, limit, most := filepath.Ext(path) == ".wasm", int64(maxUpload), "a file has at most 1 MiB"
	if isModule {
		limit, most = maxModuleFile, "a module has at most 64 MiB"
	}
	data, err := readFile(path, limit)
	switch {
	case errors.Is(err, errTooLarge):
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%s: it is too large: %s", path, most).WithHint("split it, or keep data outside of the code")
	case err != nil:
		return "", err
	case isModule:
		return release.PackFile(path, data)
	}
	return string(data), nil
}

var errTooLarge = errors.New("it is too large")

// readFile reads a file of at most limit bytes; a larger one is errTooLarge. The size that the
// system reports is not used: a device such as /dev/zero and a pipe have none.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errTooLarge
	}
	return data, err
}

func (a *cli) toolListCommand() *cobra.Command {
	var p paging
	var filter release.Filter
	c := &cobra.Command{
		Use:   "list [NAMESPACE]",
		Short: "List the tools that have versions",
		Long: `List the functions. With NAMESPACE, list its tools, including those that a source defines.
With --quarantined, list the tools of sources whose definition waits for a release.`,
		Example: "  toolroom tool list\n  toolroom tool list github\n  toolroom tool list --quarantined",
		Args:    arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if len(args) > 0 {
				filter.Namespace = strings.TrimSuffix(args[0], ":*")
			}
			list, err := r.Parts().Releases.List(ctx, filter)
			if err == nil {
				list, err = pageOf(a, &p, list, func(t release.Summary) string { return t.Tool })
			}
			if err != nil {
				return err
			}
			none := "No tools yet. Write one: toolroom tool new NAME -l python; or see the examples: toolroom tool add examples"
			if filter != (release.Filter{}) {
				none = "There are none."
			}
			return showList(a, list, none, []string{"TOOL", "LANGUAGE", "NEWEST", "STATUS", "RELEASED", "CASES", "WHAT IT DOES"}, func(t release.Summary) []string {
				status := t.Status.Word(t.Reason)
				if t.Quarantined != "" {
					status = "quarantined"
				}
				return []string{t.Tool, t.Language, fmt.Sprint(t.Newest), status, releasedTo(t.Released), fmt.Sprint(t.Cases), catalog.Shorten(t.Description, 80)}
			})
		}),
	}
	p.flags(c, 100)
	c.Flags().BoolVar(&filter.Quarantined, "quarantined", false, "only tools whose definition waits for a release")
	a.jsonFlag(c, "print JSON")
	return c
}

func releasedTo(released map[string]int) string {
	var parts []string
	for _, environment := range slices.Sorted(maps.Keys(released)) {
		parts = append(parts, fmt.Sprintf("%s@%d", environment, released[environment]))
	}
	return cmp.Or(strings.Join(parts, " "), "-")
}

func (a *cli) toolShowCommand() *cobra.Command {
	var text bool
	c := &cobra.Command{
		Use:     "show TOOL[@VERSION]",
		Short:   "Show the versions, releases and cases of a tool",
		Example: "  toolroom tool show double\n  toolroom tool show double@2 --text",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			if text || number > 0 {
				v, err := s.Pick(ctx, tool, number)
				if err != nil {
					return err
				}
				if a.asJSON {
					return a.screen.json(v)
				}
				if text && v.Spec.Source != "" {
					return a.screen.json(json.RawMessage(cmp.Or(string(v.Spec.Raw), string(v.Spec.Definition))))
				}
				if text {
					return a.screen.review(v.Spec.Files[v.Spec.File])
				}
				return a.printVersion(v)
			}
			d, err := s.Show(ctx, tool)
			if err != nil {
				return err
			}
			return show(a, d, a.printDetail)
		}),
	}
	c.Flags().BoolVar(&text, "text", false, "print the code")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printVersion(v *release.Version) error {
	var out strings.Builder
	fmt.Fprintf(&out, "%s version %d, %s, by %s on %s\n", v.Tool, v.Number, v.Status.Word(v.Reason), v.Author, v.Created.Format("2006-01-02 15:04"))
	for _, line := range [][2]string{
		{"message", v.Message},
		{"deprecated", v.Reason},
		{"digest", v.Digest},
		{"lock", v.Spec.LockDigest()},
		{"layer", v.Spec.Layer},
		{"built here", strings.Join(v.Spec.Built, "\n")},
		{"source", v.Spec.Source},
		{"function", strings.Trim(v.Spec.File+":"+v.Spec.Entry, ":")},
		{"packages", strings.Join(v.Spec.Requires, ", ")},
		{"description", v.Spec.Description},
		{"input", string(v.Spec.InputSchema)},
		{"output", string(v.Spec.OutputSchema)},
	} {
		if line[1] != "" {
			fmt.Fprintf(&out, "  %-12s %s\n", line[0], strings.ReplaceAll(line[1], "\n", "\n               "))
		}
	}
	return a.screen.review(out.String())
}

func (a *cli) printDetail(d *release.Detail) error {
	released := map[int][]string{}
	for _, one := range d.Releases {
		released[one.Version] = append(released[one.Version], one.Environment)
		if one.Canary > 0 {
			to := "a shadow"
			if !one.Shadow {
				to = one.CanaryRule.String()
			}
			released[one.Canary] = append(released[one.Canary], fmt.Sprintf("%s (%s)", one.Environment, to))
		}
	}
	rows := make([][]string, len(d.Versions))
	for i, v := range d.Versions {
		rows[i] = []string{fmt.Sprint(v.Number), v.Status.Word(v.Reason), cmp.Or(strings.Join(released[v.Number], ", "), "-"), v.Author, v.Created.Format("2006-01-02 15:04"), v.Digest[:12], cmp.Or(v.Message, v.Reason)}
	}
	if err := a.screen.review(fmt.Sprintf("%s: %s\n", d.Tool, catalog.Shorten(d.Versions[0].Spec.Description, 200))); err != nil {
		return err
	}
	if err := a.screen.table([]string{"VERSION", "STATUS", "RELEASED", "AUTHOR", "CREATED", "DIGEST", "MESSAGE"}, rows); err != nil {
		return err
	}
	if d.Offered != nil && d.Offered.Quarantined != "" {
		a.screen.say("quarantined: %s (version %d is offered); see the difference: toolroom tool diff %s", d.Offered.Quarantined, d.Offered.Version, d.Tool)
	}
	if len(d.Cases) > 0 {
		a.screen.say("%s: toolroom tool case list %s", count(len(d.Cases), "case"), d.Tool)
	}
	return nil
}
