package cli

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/release"
)

//go:embed toolexamples
var toolExamples embed.FS

//go:embed toolstarters
var toolStarters embed.FS

// starters are the folders of new tools in toolstarters, by language. In their names and
// texts, NAME stands for the name of the tool.
var starters = map[string]string{
	"python": "python", "py": "python", "sh": "sh", "shell": "sh", "script": "sh", "go": "go", "wasm": "go",
	"ts": "ts", "typescript": "ts", "js": "js", "javascript": "js",
}

func (a *cli) toolNewCommand() *cobra.Command {
	var language string
	c := &cobra.Command{
		Use:     "new NAME",
		Short:   "Write a starter for a new tool",
		Example: "  toolroom tool new greet -l python && toolroom tool push greet.py",
		Args:    arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			starter, ok := starters[language]
			if !ok {
				return usage("toolroom tool new "+args[0]+" -l python", "there is no starter for the language %q: there are %s", language, strings.Join(slices.Sorted(maps.Keys(starters)), ", "))
			}
			if id := (toolroom.ID{Namespace: "fn", Name: args[0]}); id.Validate() != nil {
				return usage("toolroom tool new greet", "%q is not the name of a tool", args[0])
			}
			return a.writeStarter(starter, args[0])
		},
	}
	c.Flags().StringVarP(&language, "lang", "l", "python", "python, ts, js, sh, or go (for WebAssembly)")
	completeValues(c, "lang", slices.Sorted(maps.Keys(starters))...)
	return c
}

// writeStarter writes a starter: one file, or a folder.
func (a *cli) writeStarter(starter, tool string) error {
	files, err := toolStarters.ReadDir("toolstarters/" + starter)
	if err != nil {
		return err
	}
	to := a.Dir
	if len(files) > 1 {
		to = filepath.Join(a.Dir, tool)
		if err := os.Mkdir(to, 0o755); errors.Is(err, fs.ErrExist) {
			return toolroom.Errorf(toolroom.CodeConflict, "there is already a file %s", tool).WithHint("choose another name")
		} else if err != nil {
			return err
		}
	}
	for _, file := range files {
		text, err := toolStarters.ReadFile(path.Join("toolstarters", starter, file.Name()))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.ReplaceAll(file.Name(), "NAME", tool), ".txt")
		f, err := os.OpenFile(filepath.Join(to, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return toolroom.Errorf(toolroom.CodeConflict, "there is already a file %s", name).WithHint("choose another name")
		}
		if err != nil {
			return err
		}
		_, err = f.WriteString(strings.ReplaceAll(string(text), "NAME", tool))
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		if len(files) == 1 {
			a.screen.say("wrote %s; store it: toolroom tool push %s", name, name)
		}
	}
	if len(files) > 1 {
		a.screen.say("wrote the folder %s; build it: cd %s && GOOS=wasip1 GOARCH=wasm go build -ldflags=-s -o %s.wasm main.go; store it: toolroom tool push %s", tool, tool, tool, tool)
	}
	return nil
}

// exampleMessage is the message of the versions that are examples.
const exampleMessage = "example"

func (a *cli) toolAddCommand() *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "add examples",
		Short: "Add the example tools with their cases",
		Long: `Push nine small tools with saved cases, and release them to test, or to the environment
that --env names.`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if args[0] != "examples" {
				return usage("toolroom tool add examples", "there is nothing called %q to add", args[0])
			}
			s := r.Parts().Releases
			files, err := toolExamples.ReadDir("toolexamples")
			if err != nil {
				return err
			}
			for _, f := range files {
				text, err := toolExamples.ReadFile(path.Join("toolexamples", f.Name()))
				if err != nil {
					return err
				}
				tool := "fn:" + strings.TrimSuffix(f.Name(), path.Ext(f.Name()))
				if mine, err := s.Pick(ctx, tool, 0); err == nil && mine.Message != exampleMessage {
					a.screen.say("%s: left as it is, since you have a tool of this name", tool)
					continue
				}
				pushed, err := s.Push(ctx, release.Upload{Files: map[string]string{f.Name(): string(text)}, File: f.Name(), Message: exampleMessage, Base: -1}, a.author())
				if err != nil {
					return err
				}
				for _, p := range pushed {
					if _, err := s.Release(ctx, release.Order{Tool: p.Tool, Version: p.Number, Environment: environment, Reason: exampleMessage}, a.author()); err != nil {
						return err
					}
					a.screen.say("%s: version %d, %s, released to %s", p.Tool, p.Number, count(p.Cases, "case"), environment)
				}
			}
			a.screen.say("run their cases: toolroom tool test --all")
			return nil
		}),
	}
	c.Flags().StringVar(&environment, "env", release.Test, "environment to release them to")
	return c
}

func (a *cli) toolDiffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "diff TOOL [FROM [TO]] | SOURCE:*",
		Short: "Show what changed between two versions",
		Long: `Show what changed between two versions. By default, these are the newest version and the
one before it; for a tool of a source, what is released and what the source offers now.
SOURCE:* shows all definitions of a source that wait for a release, and text in them that
people do not see.`,
		Example: "  toolroom tool diff double\n  toolroom tool diff double 1 3\n  toolroom tool diff 'github:*'",
		Args:    arguments(1, 3),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if name, ok := sourceOfAll(args); ok {
				w, err := r.QuarantinedSource(ctx, name)
				if err != nil {
					return err
				}
				return show(a, w, a.printWaiting)
			}
			s, tool, number, err := findTool(ctx, r, args[0])
			if err != nil {
				return err
			}
			from, to := 0, number
			for i, at := range []*int{&from, &to} {
				if len(args) > i+1 {
					if *at, err = strconv.Atoi(strings.TrimPrefix(args[i+1], "@")); err != nil {
						return usage("toolroom tool diff "+args[0]+" 1 2", "%q is not a version", args[i+1])
					}
				}
			}
			before, after, err := s.VersionsToCompare(ctx, tool, from, to)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(map[string]any{"tool": tool, "from": before.Number, "to": after.Number, "diff": release.Diff(before, after), "breaks": release.Breaks(&before.Spec, &after.Spec)})
			}
			if err := a.screen.review(release.Diff(before, after)); err != nil {
				return err
			}
			if after.Spec.Source != "" {
				a.screen.say("release it: toolroom tool release %s@%d", tool, after.Number)
			}
			return nil
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) toolSyncCommand() *cobra.Command {
	var environment string
	var check, force bool
	c := &cobra.Command{
		Use:   "sync FOLDER",
		Short: "Synchronise the tools with a folder",
		Long: `Compare the code in a folder with the newest versions, print a plan, and push and
release what differs. Each file of code at the top and each folder with tool.yaml,
or of the form NAMESPACE/NAME, is one upload. If a folder has tool.cases.json, the saved
cases are replaced by those in it. --check changes nothing and fails if something differs. If somebody
has pushed since your last pull or sync, it fails with conflict and shows the difference.`,
		Example: "  toolroom tool sync tools --check\n  toolroom tool sync tools --env test",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			folder := a.argumentPath(args[0])
			uploads, err := a.uploadsIn(folder)
			if err != nil {
				return err
			}
			top, err := os.OpenRoot(folder)
			if err != nil {
				return err
			}
			defer top.Close()
			known := readPullState(top)
			o := release.SyncOptions{Environment: environment, DryRun: check, Bases: known.Versions, Force: force}
			plan, err := r.Parts().Releases.Sync(ctx, uploads, o, a.author())
			if err != nil && len(plan) == 0 {
				return a.printErrorDiff(err)
			}
			if !check && err == nil {
				for _, s := range plan {
					if s.Version > 0 {
						known.Versions[s.Tool] = s.Version
					}
					if err := known.noteCases(top, s.Tool); err != nil {
						return err
					}
				}
				err = known.write(top)
			}
			if a.asJSON {
				if err := a.screen.json(plan); err != nil {
					return err
				}
			} else {
				a.printPlan(plan, check)
			}
			if err != nil {
				return a.printErrorDiff(err)
			}
			if check && slices.ContainsFunc(plan, func(s release.Step) bool { return s.Action != release.StepNothing }) {
				return exitCode(toolroom.ExitFailed)
			}
			return nil
		}),
	}
	f := c.Flags()
	f.StringVar(&environment, "env", "", "also release to this environment")
	f.BoolVar(&check, "check", false, "change nothing; fail if something differs")
	f.BoolVar(&force, "force", false, "push even if somebody has pushed since your last pull or sync; release even what was rolled back")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printPlan(plan []release.Step, check bool) {
	for _, s := range plan {
		note := ""
		if s.Version > 0 {
			note = fmt.Sprintf(" version %d", s.Version)
		}
		a.screen.say("%-8s %s%s%s", s.Action, s.Tool, note, cmp.Or(s.Note, ""))
	}
	if check {
		a.screen.say("nothing was changed")
	}
}

// uploadsIn finds the uploads of a folder.
func (a *cli) uploadsIn(folder string) ([]release.Upload, error) {
	var uploads []release.Upload
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "cannot read %s: %w", folder, err)
	}
	for _, e := range entries {
		at := filepath.Join(folder, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.Type().IsRegular() && isCode(at), e.IsDir() && isUpload(at):
			u, err := a.readUpload(at)
			if err != nil {
				return nil, err
			}
			uploads = append(uploads, u)
		case e.IsDir():
			below, err := os.ReadDir(at)
			if err != nil {
				return nil, err
			}
			for _, tool := range below {
				if !tool.IsDir() {
					continue
				}
				u, err := a.readUpload(filepath.Join(at, tool.Name()))
				if err != nil {
					return nil, err
				}
				u.Namespace, u.Own = e.Name(), tool.Name()
				uploads = append(uploads, u)
			}
		}
	}
	return uploads, nil
}

// isUpload reports whether a folder is one upload: it has code or a manifest itself.
func isUpload(folder string) bool {
	entries, err := os.ReadDir(folder)
	return err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() == "tool.yaml" || e.Type().IsRegular() && isCode(filepath.Join(folder, e.Name()))
	})
}

// pushFromRun pushes a program that ran as a function, and prints it.
func (a *cli) pushFromRun(ctx context.Context, r *app.App, args []string, from *app.FromRunOptions, literals []string, u *release.Upload) error {
	const example = "toolroom tool push --from-run call_4xk2 --name open_issues"
	if len(args) > 0 || from.Name == "" {
		return usage(example, "--from-run takes the place of a file and needs --name")
	}
	from.Literals = map[string]json.RawMessage{}
	for _, one := range literals {
		name, value, ok := strings.Cut(one, "=")
		if !ok {
			return usage(example+" --param repo='\"toolroom/docs\"'", "--param %s is not NAME=JSON", one)
		}
		if !json.Valid([]byte(value)) {
			text, err := json.Marshal(value) // a text without quotes
			if err != nil {
				return err
			}
			value = string(text)
		}
		from.Literals[name] = json.RawMessage(value)
	}
	p, err := r.ProposeFromRun(ctx, *from)
	if err != nil {
		return err
	}
	pushed, err := r.PushProposal(ctx, p, u.Namespace, u.Message, a.author())
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.screen.json(pushed)
	}
	if err := a.screen.printf("%s", p.Upload.Files[p.Upload.File]); err != nil {
		return err
	}
	if n := len(p.Unrecorded); n > 0 {
		a.screen.say("its case makes real calls: %s had answers that are too long to record", count(n, "call"))
	}
	return a.printPushed([]release.Pushed{pushed})
}
