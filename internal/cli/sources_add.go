package cli

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/servers"
	"github.com/toolroom/toolroom/sandbox"
)

// newSource holds the flags of sources add.
type newSource struct {
	openapi, baseURL string
	graphql          string
	include, exclude []string
	auth             []string
	program          string
	cwd              string
	env, headers     []string
	description      string
	output           string
	force, noTest    bool
	sandbox          string
	from, way        string
	args             []string
	read, write      []string
	hosts            []string
}

func (a *cli) sourcesAddCommand() *cobra.Command {
	var n newSource
	c := &cobra.Command{
		Use:   "add NAME [-- COMMAND ARGS… | URL | --openapi SPEC | --graphql URL | --cli PROGRAM]",
		Short: "Add a source to the config",
		Long: `Add a source to the config, start it and list its tools. NAME becomes the
namespace of its tools. A source that fails its test stays in the config.

  NAME alone         an MCP server from the catalogue (toolroom sources catalog): add
                     asks for missing secrets, and packages run in a sandbox
  -- COMMAND ARGS…   a local MCP server on stdio
  URL                a remote MCP server over HTTP
  --openapi SPEC     an HTTP service, from its OpenAPI document (file or URL)
  --graphql URL      a GraphQL service: its queries and mutations become tools
  --cli PROGRAM      a command-line program: its sub-commands become tools

Values of --env and --header may be references: secret://SCOPE/NAME (see
toolroom secret set) and env://NAME.`,
		Example: `  toolroom sources add github
  toolroom sources add filesystem --arg ~/notes
  toolroom sources add filesystem -- mcp-server-filesystem .
  toolroom sources add issues https://example.com/mcp --header Authorization=secret://issues/token
  toolroom sources add petstore --openapi petstore.json --base-url http://127.0.0.1:8081
  toolroom sources add gh --openapi github.json --include tag:issues --auth token=secret://gh/token
  toolroom sources add shop --graphql https://shop.example.com/graphql --header Authorization=secret://shop/token
  toolroom sources add git --cli git
  toolroom sources add notes --sandbox --write notes -- npx -y @modelcontextprotocol/server-filesystem notes`,
		Args: arguments(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			command := []string{}
			if at := c.ArgsLenAtDash(); at >= 0 {
				args, command = args[:at], args[at:]
			}
			if err := a.rejectStrayArgument(args, n.from); err != nil {
				return err
			}
			var source config.Source
			var err error
			if n.isCatalogued(args, command) {
				source, err = a.catalogueSource(c.Context(), &n, args[0])
			} else {
				source, err = n.source(args, command)
			}
			if err != nil {
				return err
			}
			if err := n.checkPresent(a.Dir, source); err != nil {
				return err
			}
			if s := source.Sandbox; s != nil && s.Runtime != "" {
				if err := a.inRoom(c.Context(), func(r *app.App) error { return r.CheckSandbox(s.Runtime) }); err != nil {
					return err
				}
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			if err := a.addSource(c.Context(), file, args[0], source, n.force); err != nil {
				return err
			}
			if err := a.screen.printf("added source %q to %s\n", args[0], file); err != nil {
				return err
			}
			if n.noTest {
				a.screen.say("check it: toolroom sources test %s", args[0])
				return nil
			}
			return a.inRoom(c.Context(), func(r *app.App) error { return a.testNewSource(c.Context(), r, args[0]) })
		},
	}
	f := c.Flags()
	f.StringVar(&n.openapi, "openapi", "", "OpenAPI document, a file or URL")
	f.StringVar(&n.graphql, "graphql", "", "GraphQL endpoint, a URL")
	f.StringVar(&n.baseURL, "base-url", "", "with --openapi: base URL of the service")
	f.StringArrayVar(&n.include, "include", nil, "with --openapi: only these operations: operationId, \"GET /path*\" or tag:NAME; with --graphql: names, query, mutation (may be repeated)")
	f.StringArrayVar(&n.exclude, "exclude", nil, "with --openapi or --graphql: leave out these operations (may be repeated)")
	f.StringArrayVar(&n.auth, "auth", nil, "with --openapi: credential of a security scheme: SCHEME=VALUE (may be repeated)")
	f.StringVar(&n.program, "cli", "", "command-line program whose sub-commands become tools")
	f.StringVar(&n.cwd, "cwd", "", "working folder of the command or program")
	f.StringArrayVar(&n.env, "env", nil, "environment variable of the command or program: NAME=VALUE (may be repeated)")
	f.StringArrayVar(&n.headers, "header", nil, "header for every request: NAME=VALUE or 'NAME: VALUE' (may be repeated)")
	f.StringVar(&n.description, "description", "", "description of the source, which search reads")
	f.StringVar(&n.output, "output", "", "if a result does not match its schema: strict (fail), warn (default) or off")
	completeValues(c, "output", config.OutputChecks()...)
	f.StringVar(&n.from, "from", "", "name of the server in the catalogue, if it is not NAME")
	f.StringVar(&n.way, "package", "", "how to run a server from the catalogue: remote, npm, pypi or oci (default: the first that it offers)")
	completeValues(c, "package", servers.KindRemote, servers.KindNPM, servers.KindPyPI, servers.KindOCI)
	f.StringArrayVar(&n.args, "arg", nil, "argument for a server from the catalogue (may be repeated)")
	f.StringVar(&n.sandbox, "sandbox", "", "run the command or program in this sandbox: process (default), docker or another; none runs a server from the catalogue without one")
	f.Lookup("sandbox").NoOptDefVal = config.RuntimeProcess
	f.StringArrayVar(&n.read, "read", nil, "folder that the source may read in its sandbox (may be repeated)")
	f.StringArrayVar(&n.write, "write", nil, "folder that the source may read and write in its sandbox (may be repeated)")
	f.StringArrayVar(&n.hosts, "host", nil, "host that the source may reach from its sandbox (may be repeated)")
	f.BoolVar(&n.noTest, "no-test", false, "do not start the source to list its tools")
	f.BoolVar(&n.force, "force", false, "replace an existing source of this name")
	return c
}

// checkPresent returns an error if the source's program or document is not on this machine. Most
// often its name is misspelled. With --no-test it checks nothing.
func (n *newSource) checkPresent(dir string, s config.Source) error {
	command := ""
	switch {
	case n.noTest || s.Sandbox != nil && s.Sandbox.Runtime != "":
		return nil
	case s.CLI != nil:
		command = s.CLI.Command
	case s.MCP != nil:
		command = s.MCP.Command
	case s.OpenAPI != nil && !strings.Contains(s.OpenAPI.Spec, "://"):
		file := absolute(dir, s.OpenAPI.Spec)
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return toolroom.Errorf(toolroom.CodeNotFound, "there is no file %s, so nothing was added", file).
				WithHint("check its spelling; --no-test adds the source nevertheless")
		}
	}
	if command == "" || strings.Contains(command, "/") {
		return nil
	}
	if _, err := exec.LookPath(command); errors.Is(err, exec.ErrNotFound) {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no program %s in the folders of PATH, so nothing was added", command).
			WithHint("check its spelling, install it, or give its full path; --no-test adds the source nevertheless")
	}
	return nil
}

// testNewSource tests a source that was just added. If it does not work, the command does not
// fail, because the source may need a login or a server that is not there yet.
func (a *cli) testNewSource(ctx context.Context, r *app.App, name string) error {
	test, err := a.testSource(ctx, r, name)
	if err != nil {
		return err
	}
	if test.Error != "" {
		a.screen.say("%s was added, but does not work yet: %s\n%s", name, oneLine(test.Error), testHint(test.Status))
		return nil
	}
	return a.printTest(r, test)
}

// addSource adds a source to the config. It moves values that seem to be secrets into the secret
// store, and the config refers to them.
func (a *cli) addSource(ctx context.Context, file, name string, source config.Source, force bool) error {
	lifted, secrets := config.LiftSecrets(name, source)
	// A source that is not added must not change the secrets of the one that exists.
	ready := func() error { return a.storeSecrets(ctx, secrets, force) }
	err := config.AddSource(file, name, lifted, force, ready, a.keepTrust(file))
	if err := a.record(ctx, "sources.add", changeArguments{Name: name, Force: force}, err); err != nil {
		return err
	}
	for _, ref := range slices.Sorted(maps.Keys(secrets)) {
		a.screen.say("stored a secret as %s, to which the config refers", ref)
	}
	return nil
}

// isCatalogued reports whether the flags and arguments name a server of the catalogue.
func (n *newSource) isCatalogued(args, command []string) bool {
	return len(args) == 1 && len(command) == 0 && n.openapi == "" && n.graphql == "" && n.program == ""
}

// rejectStrayArgument returns an error for a second word that is not a URL if the first names a
// server of the catalogue. The word is probably meant as the server's argument.
func (a *cli) rejectStrayArgument(args []string, from string) error {
	if len(args) != 2 || isURL(args[1]) {
		return nil
	}
	if all, err := servers.Open(a.home); err == nil {
		if _, err := all.Find(cmp.Or(from, args[0])); err == nil {
			return usage("toolroom sources add "+args[0]+" --arg "+args[1], "an argument of the catalogue's server %s goes after --arg", cmp.Or(from, args[0]))
		}
	}
	return nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

const addUsage = "toolroom sources add NAME -- COMMAND ARGS…, or NAME URL, or NAME --openapi SPEC, or NAME --graphql URL, or NAME --cli PROGRAM"

// source builds the config entry. args are the words before --, starting with the name;
// command holds those after it.
func (n *newSource) source(args, command []string) (config.Source, error) {
	s := config.Source{Description: n.description, Output: n.output}
	env, err := parsePairs("--env", n.env)
	if err != nil {
		return s, err
	}
	headers, err := parsePairs("--header", normalizeHeaders(n.headers))
	if err != nil {
		return s, err
	}
	auth, err := parsePairs("--auth", n.auth)
	if err != nil {
		return s, err
	}
	ways := 0
	if n.from != "" || n.way != "" || len(n.args) > 0 {
		return s, usage("remove it", "--from, --package and --arg are for servers of the catalogue")
	}
	if len(args) > 2 && len(command) == 0 && !isURL(args[1]) {
		return s, usage("toolroom sources add "+args[0]+" -- "+strings.Join(args[1:], " "), "a command goes after --")
	}
	if len(args) == 0 || len(args) > 2 {
		return s, usage(addUsage, "a source needs a name and exactly one of COMMAND, URL, --openapi, --graphql and --cli; a command goes after --")
	}
	if len(args) == 2 {
		ways++
		if scheme, _, ok := strings.Cut(args[1], "://"); ok && !isURL(args[1]) {
			if scheme = strings.ToLower(scheme); scheme != "http" && scheme != "https" {
				return s, usage("toolroom sources add "+args[0]+" https://HOST/PATH", "only http and https URLs are read, not %s", scheme)
			}
			return s, usage("toolroom sources add "+args[0]+" https://HOST/PATH", "%q is not a URL", args[1])
		}
		if !isURL(args[1]) && n.sandbox != "" && (len(command) > 0 || n.program != "") {
			return s, usage("--sandbox="+args[1], "%q is no argument of a source; the name of a sandbox goes after =", args[1])
		}
		if !isURL(args[1]) {
			return s, usage("toolroom sources add "+args[0]+" -- "+args[1], "%q is not the URL of an MCP server; a command goes after --", args[1])
		}
		s.MCP = &config.MCP{URL: args[1], Headers: headers}
	}
	if len(command) > 0 {
		ways++
		s.MCP = &config.MCP{Command: command[0], Args: command[1:], Env: env, Cwd: n.cwd}
	}
	if n.openapi != "" {
		ways++
		s.OpenAPI = &config.OpenAPI{Spec: n.openapi, BaseURL: n.baseURL, Headers: headers, Include: n.include, Exclude: n.exclude, Auth: auth}
	}
	if n.graphql != "" {
		ways++
		s.GraphQL = &config.GraphQL{URL: n.graphql, Headers: headers, Include: n.include, Exclude: n.exclude}
	}
	if n.program != "" {
		ways++
		s.CLI = &config.CLISource{Command: n.program, Env: env, Cwd: n.cwd}
	}
	if ways != 1 {
		return s, usage(addUsage, "source %s needs exactly one of COMMAND, URL, --openapi, --graphql and --cli", args[0])
	}
	if n.sandbox != "" || len(n.read)+len(n.write)+len(n.hosts) > 0 {
		s.Sandbox = &config.Sandbox{Profile: string(sandbox.Standard), Read: n.read, Write: n.write, Hosts: n.hosts}
		if n.sandbox != config.RuntimeProcess {
			s.Sandbox.Runtime = n.sandbox
		}
	}
	return s, n.rejectUnusedFlags(s)
}

// rejectUnusedFlags returns an error for flags that this kind of source does not use, because
// they would be ignored silently.
func (n *newSource) rejectUnusedFlags(s config.Source) error {
	runs := s.CLI != nil || s.MCP != nil && s.MCP.Command != ""
	switch {
	case n.baseURL != "" && s.OpenAPI == nil:
		return usage("remove it", "--base-url requires --openapi")
	case len(n.auth) > 0 && s.OpenAPI == nil:
		return usage("remove it, or use --header", "--auth requires --openapi")
	case len(n.include)+len(n.exclude) > 0 && s.OpenAPI == nil && s.GraphQL == nil:
		return usage("remove it", "--include and --exclude require --openapi or --graphql")
	case len(n.headers) > 0 && runs:
		return usage("remove it, or use --env", "--header requires a URL, --openapi or --graphql")
	case s.Sandbox != nil && !runs:
		return usage("remove it", "--sandbox, --read, --write and --host require a command or --cli")
	case (len(n.env) > 0 || n.cwd != "") && !runs:
		return usage("remove it", "--env and --cwd require a command or --cli")
	}
	return nil
}

// normalizeHeaders rewrites words of curl's form NAME: VALUE to NAME=VALUE.
func normalizeHeaders(words []string) []string {
	out := slices.Clone(words)
	for i, word := range out {
		name, value, ok := strings.Cut(word, ":")
		if ok && name != "" && !strings.ContainsAny(name, "= \t") {
			out[i] = name + "=" + strings.TrimSpace(value)
		}
	}
	return out
}

// parsePairs parses words of the form NAME=VALUE.
func parsePairs(flag string, words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			// The word may be a secret, so the message does not repeat it.
			return nil, usage(flag+" NAME=VALUE", "%s needs NAME=VALUE", flag)
		}
		values[name] = value
	}
	return values, nil
}
