package cli

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/config"
)

// newSource is what the flags of sources add say.
type newSource struct {
	openapi, baseURL string
	program          string
	cwd              string
	env, headers     []string
	description      string
	force            bool
}

func (a *app) sourcesAddCommand() *cobra.Command {
	var n newSource
	c := &cobra.Command{
		Use:   "add NAME {-- COMMAND ARGS… | URL | --openapi SPEC | --cli PROGRAM}",
		Short: "Add a source to the config",
		Long: `Add a source of tools to the config. NAME becomes the namespace of its tools.

  -- COMMAND ARGS…   an MCP server that runs here, on stdio
  URL                an MCP server elsewhere, over HTTP
  --openapi SPEC     an HTTP service, from its OpenAPI document (file or URL)
  --cli PROGRAM      a program: its sub-commands become tools

Values of --env and --header may be references: secret://SCOPE/NAME (see
toolroom secret set) and env://NAME.`,
		Example: `  toolroom sources add filesystem -- mcp-server-filesystem .
  toolroom sources add issues https://example.com/mcp --header Authorization=secret://issues/token
  toolroom sources add petstore --openapi petstore.json --base-url http://127.0.0.1:8081
  toolroom sources add git --cli git`,
		Args: arguments(1, -1),
		RunE: func(c *cobra.Command, args []string) error {
			command := []string{}
			if at := c.ArgsLenAtDash(); at >= 0 {
				args, command = args[:at], args[at:]
			}
			source, err := n.source(args, command)
			if err != nil {
				return err
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			if err := config.AddSource(file, args[0], source, n.force); err != nil {
				return err
			}
			if err := a.screen.printf("%s is in %s\n", args[0], file); err != nil {
				return err
			}
			a.screen.say("see whether it works and what it says of itself: toolroom sources test %s", args[0])
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&n.openapi, "openapi", "", "OpenAPI document, a file or URL")
	f.StringVar(&n.baseURL, "base-url", "", "with --openapi: address of the service")
	f.StringVar(&n.program, "cli", "", "program whose sub-commands become tools")
	f.StringVar(&n.cwd, "cwd", "", "folder that the command or program runs in")
	f.StringArrayVar(&n.env, "env", nil, "NAME=VALUE for the command or program; may be repeated")
	f.StringArrayVar(&n.headers, "header", nil, "NAME=VALUE for every request; may be repeated")
	f.StringVar(&n.description, "description", "", "what the source is for; search reads it")
	f.BoolVar(&n.force, "force", false, "replace a source of that name")
	return c
}

const addUsage = "toolroom sources add NAME -- COMMAND ARGS…, or NAME URL, or NAME --openapi SPEC, or NAME --cli PROGRAM"

// source makes the entry of the config. args are the words before --, the name
// first; command those after it.
func (n *newSource) source(args, command []string) (config.Source, error) {
	s := config.Source{Description: n.description}
	env, err := pairs("--env", n.env)
	if err != nil {
		return s, err
	}
	headers, err := pairs("--header", n.headers)
	if err != nil {
		return s, err
	}
	ways := 0
	if len(args) == 0 || len(args) > 2 {
		return s, usage(addUsage, "a source needs one name and one place; a command goes after --")
	}
	if len(args) == 2 {
		ways++
		if u, err := url.Parse(args[1]); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return s, usage("toolroom sources add "+args[0]+" -- "+args[1], "%q is no URL of an MCP server; a command goes after --", args[1])
		}
		s.MCP = &config.MCP{URL: args[1], Headers: headers}
	}
	if len(command) > 0 {
		ways++
		s.MCP = &config.MCP{Command: command[0], Args: command[1:], Env: env, Cwd: n.cwd}
	}
	if n.openapi != "" {
		ways++
		s.OpenAPI = &config.OpenAPI{Spec: n.openapi, BaseURL: n.baseURL, Headers: headers}
	}
	if n.program != "" {
		ways++
		s.CLI = &config.CLISource{Command: n.program, Env: env, Cwd: n.cwd}
	}
	if ways != 1 {
		return s, usage(addUsage, "the source %s needs one place that its tools come from", args[0])
	}
	return s, n.fits(s)
}

// fits refuses flags that the kind of source has no use for: they would be
// lost without a word.
func (n *newSource) fits(s config.Source) error {
	runs := s.CLI != nil || s.MCP != nil && s.MCP.Command != ""
	switch {
	case n.baseURL != "" && s.OpenAPI == nil:
		return usage("leave it out", "--base-url goes with --openapi")
	case len(n.headers) > 0 && runs:
		return usage("leave it out, or use --env", "--header goes with a URL or --openapi")
	case (len(n.env) > 0 || n.cwd != "") && !runs:
		return usage("leave it out", "--env and --cwd go with a command or --cli")
	}
	return nil
}

// pairs reads words NAME=VALUE.
func pairs(flag string, words []string) (map[string]string, error) {
	if len(words) == 0 {
		return nil, nil
	}
	values := map[string]string{}
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			// The word may be a secret: it is not repeated.
			return nil, usage(flag+" NAME=VALUE", "%s needs NAME=VALUE", flag)
		}
		values[name] = value
	}
	return values, nil
}
