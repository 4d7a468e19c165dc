package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/internal/servers"
	"github.com/toolroom/toolroom/sandbox"
)

// catalogEntry describes a server of the catalogue in the output.
type catalogEntry struct {
	Name        string   `json:"name"`
	Server      string   `json:"server"`
	Title       string   `json:"title,omitempty"`
	Description string   `json:"description,omitempty"`
	Ways        []string `json:"ways"`
	Fetched     bool     `json:"fetched,omitempty"`
}

func (a *cli) sourcesCatalogCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "catalog [WORDS…]",
		Short: "List MCP servers that can be added by name",
		Long: `List or search the MCP servers that "sources add NAME" knows by name: a built-in list, in
the format of the public MCP registry, and the list that "catalog update" has fetched.`,
		Example: `  toolroom sources catalog
  toolroom sources catalog github
  toolroom sources catalog update`,
		Args: arguments(0, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := servers.Open(a.home)
			if err != nil {
				return err
			}
			if len(args) > 1 && args[0] == "search" { // as people write it
				args = args[1:]
			}
			found := all.Search(strings.Join(args, " "))
			list := make([]catalogEntry, 0, len(found))
			for _, s := range found {
				if ways := s.Kinds(); len(ways) > 0 {
					list = append(list, catalogEntry{s.Short(), s.Name, s.Title, s.Description, ways, s.Meta.Ours.Name == ""})
				}
			}
			if a.asJSON {
				return a.screen.json(list)
			}
			if len(list) == 0 {
				a.screen.say("No server has these words. Fetch the list of the public registry: toolroom sources catalog update")
				return nil
			}
			shown := list[:min(len(list), maxShownServers)]
			rows := make([][]string, len(shown))
			for i, s := range shown {
				name := s.Name
				if s.Fetched {
					name = s.Server
				}
				rows[i] = []string{name, strings.Join(s.Ways, " "), oneLine(s.Description)}
			}
			if err := a.screen.table([]string{"SERVER", "AS", "WHAT IT DOES"}, rows); err != nil {
				return err
			}
			if more := len(list) - len(shown); more > 0 {
				a.screen.say("and %s; add words to see fewer", count(more, "more server"))
			}
			return nil
		},
	}
	a.jsonFlag(c, "print JSON")
	c.AddCommand(a.catalogUpdateCommand())
	return c
}

// maxShownServers is how many servers the list for a person has.
const maxShownServers = 100

func (a *cli) catalogUpdateCommand() *cobra.Command {
	var from string
	c := &cobra.Command{
		Use:   "update",
		Short: "Fetch a list of MCP servers",
		Long: `Fetch a list of MCP servers, such as that of the public MCP registry, and keep it in the home.
It adds servers, and changes none of the built-in list. Anybody can publish in a public
registry: review a server before you add it.`,
		Example: `  toolroom sources catalog update
  toolroom sources catalog update --from https://registry.example.com/v0.1/servers`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			before, err := servers.Open(a.home)
			if err != nil && toolroom.CodeOf(err) != toolroom.CodeInternal {
				return err
			}
			guard, err := egress.New(r.Config().Egress.Policy(config.Egress{}))
			if err != nil {
				return err
			}
			done := a.screen.showActivity("fetching the list of servers")
			f, err := servers.Fetch(ctx, from, guard, func(n int) { a.screen.progress(fmt.Sprintf("fetching the list of servers: %d so far …", n)) })
			done()
			if err != nil {
				return err
			}
			if len(f.Servers) == 0 {
				return toolroom.Errorf(toolroom.CodeInvalidOutput, "the list at %s has no servers, so the one before stays", from)
			}
			var old []servers.Server
			if before != nil && before.Fetched != nil {
				old = before.Fetched.Servers
			}
			if err := servers.Save(a.home, f); err != nil {
				return err
			}
			added, changed, gone := servers.Changes(old, f.Servers)
			return a.screen.printf("fetched %s from %s: %d new, %d changed, %d gone\nsha256 %s\n", count(len(f.Servers), "server"), f.From, added, changed, gone, f.Digest)
		}),
	}
	c.Flags().StringVar(&from, "from", servers.Public, "URL of the list")
	return c
}

// catalogueSource builds the source of a server of the catalogue. It asks a person for the
// values that it lacks; without a terminal, the error names them.
func (a *cli) catalogueSource(ctx context.Context, n *newSource, name string) (config.Source, error) {
	all, err := servers.Open(a.home)
	if err != nil {
		return config.Source{}, err
	}
	server, err := all.Find(cmp.Or(n.from, name))
	if err != nil {
		if n.from == "" {
			return config.Source{}, toolroom.AsError(err).WithCLIHint("search the catalogue: toolroom sources catalog %s; or say what the source is: %s", name, addUsage)
		}
		return config.Source{}, err
	}
	values := slices.Clone(n.args)
	for i, v := range values { // a path counts from the working folder, and the server from the config's
		if strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || v == "." || v == ".." {
			values[i] = filepath.Join(a.Dir, v)
		}
	}
	start, err := server.Start(n.way, values)
	if err != nil {
		return config.Source{}, err
	}
	for _, i := range start.Files {
		path := start.Args[i]
		if rest, ok := strings.CutPrefix(path, "~/"); ok { // --arg=~/notes, which shells leave alone
			path = filepath.Join(a.UserHome, rest)
		}
		start.Args[i] = a.typedPath(path)
	}
	for _, note := range start.Notes {
		a.screen.say("%s", note)
	}
	file, err := a.editable()
	if err != nil {
		return config.Source{}, err
	}
	if may, err := canAdd(file, name, n.force); err != nil || !may {
		return config.Source{}, cmp.Or(err, error(toolroom.Errorf(toolroom.CodeConflict, "source %s already exists in %s", name, file).
			WithCLIHint("replace it: toolroom sources add --force %s …", name)))
	}
	filled, err := a.serverInputs(ctx, n, name, start)
	if err != nil {
		return config.Source{}, err
	}
	if err := start.Fill(filled); err != nil {
		return config.Source{}, err
	}
	s := config.Source{Description: cmp.Or(n.description, server.Description), Output: n.output}
	if start.Kind == servers.KindRemote {
		s.MCP = &config.MCP{URL: start.URL, Headers: start.Headers}
		return s, nil
	}
	s.MCP = &config.MCP{Command: start.Command, Args: start.Args, Env: start.Env}
	if start.Sandboxed && n.sandbox != "none" {
		s.Sandbox = &config.Sandbox{Profile: string(sandbox.Standard), Hosts: slices.Concat(start.Hosts, n.hosts), Read: n.read, Write: n.write}
		if n.sandbox != config.RuntimeProcess {
			s.Sandbox.Runtime = n.sandbox
		}
		for _, i := range start.Files {
			folder, err := a.folderOf(start.Args[i])
			if err != nil {
				return config.Source{}, err
			}
			s.Sandbox.Write = append(s.Sandbox.Write, folder)
		}
	}
	return s, nil
}

// folderOf returns the folder that a server may change if it works on the folder or file at
// path. For a file it is the folder of the file, because programs create others beside it, such
// as the journal of a database.
func (a *cli) folderOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		return path, nil
	}
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); err != nil {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "%s does not exist", path).WithCLIHint("make the folder: mkdir -p %s", folder)
	}
	if folder == filepath.Clean(a.UserHome) || folder == filepath.Dir(folder) {
		return "", toolroom.Errorf(toolroom.CodeInvalidArguments, "the server would see all of %s, because %s is in it", folder, filepath.Base(path)).
			WithCLIHint("put the file into a folder of its own, or run the server without a sandbox: --sandbox none")
	}
	a.screen.say("the server may change files in %s", folder)
	return folder, nil
}

// serverInputs returns the values of a server's inputs: from --env, from the secrets that are
// stored already, and from the person at the terminal. It stores new secrets, whose values are
// then references.
func (a *cli) serverInputs(ctx context.Context, n *newSource, name string, start *servers.Start) (map[string]string, error) {
	given, err := parsePairs("--env", n.env)
	if err != nil {
		return nil, err
	}
	values, typed, missing := map[string]string{}, map[string]string{}, []string{}
	known := map[string]bool{}
	stored, err := a.storedSecrets(ctx)
	if err != nil {
		return nil, err
	}
	for _, in := range start.Inputs {
		known[in.Name] = true
		ref := secret.Ref{Scope: config.CleanRef(name), Name: config.CleanRef(strings.ToLower(in.Name))}.String()
		value := given[in.Name]
		switch {
		case value != "" && in.Secret && len(secret.References(value)) == 0:
			typed[ref], value = value, ref
		case value != "":
		case in.Secret && stored[ref]:
			value = ref
		case !in.Required:
		case a.screen.interactive() && in.Secret:
			text, err := a.screen.secret(ctx, fmt.Sprintf("%s (%s): ", in.Name, oneLine(in.Description)), secret.MaxValue)
			if err != nil {
				return nil, err
			}
			if text != "" {
				typed[ref], value = text, ref
			}
		case a.screen.interactive():
			if value, err = a.screen.ask(ctx, fmt.Sprintf("%s (%s)%s:", in.Name, oneLine(in.Description), formatDefault(in.Default))); err != nil {
				return nil, err
			}
			value = cmp.Or(value, in.Default)
		default:
			value = in.Default
		}
		if value == "" && in.Required {
			line := fmt.Sprintf("%s (%s): --env %s=VALUE", in.Name, oneLine(in.Description), in.Name)
			if in.Secret {
				line = fmt.Sprintf("%s (%s): toolroom secret set %s", in.Name, oneLine(in.Description), strings.TrimPrefix(ref, "secret://"))
			}
			missing = append(missing, line)
		}
		if len(in.Choices) > 0 && value != "" && !slices.Contains(in.Choices, value) {
			return nil, usage("one of "+strings.Join(in.Choices, ", "), "%s is %q", in.Name, value)
		}
		values[in.Name] = value
	}
	for key := range given {
		if !known[key] {
			return nil, usage("remove it", "the server takes no value %s", key)
		}
	}
	if len(missing) > 0 {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the server %s needs values that are not there: %s", name, strings.Join(firstWords(missing), ", ")).
			WithCLIHint("set them, then add the source again:\n%s", strings.Join(missing, "\n"))
	}
	return values, a.storeSecrets(ctx, typed, true)
}

// formatDefault returns a default value as a prompt shows it.
func formatDefault(value string) string {
	if value == "" {
		return ""
	}
	return " [" + value + "]"
}

// firstWords returns the first word of each line.
func firstWords(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i], _, _ = strings.Cut(line, " ")
	}
	return out
}

// storedSecrets returns the references of the shared secrets that are stored.
func (a *cli) storedSecrets(ctx context.Context) (map[string]bool, error) {
	out := map[string]bool{}
	return out, a.inRoom(ctx, func(r *app.App) error {
		refs, err := r.Parts().Secrets.List()
		for _, ref := range refs {
			if ref.Owner == "" {
				out[ref.String()] = true
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
}

// canAdd reports whether a source of a name can be added. It is asked before a person types the
// source's inputs.
func canAdd(file, name string, force bool) (bool, error) {
	before, err := config.Load(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	_, exists := before.Source(name)
	return !exists || force, nil
}
