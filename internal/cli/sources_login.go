package cli

import (
	"context"
	"maps"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/room"
)

func (a *app) sourcesLoginCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "login NAME",
		Short: "Keep a token for a source and send it with each request",
		Long: `Keep a token for a remote source under secret://NAME/token and send it as
Authorization: Bearer with each of its requests. The token is typed at a prompt
that does not show it, or read from stdin. OAuth, with a browser, is not there
yet: make a token on the service's own page.`,
		Example: `  toolroom sources login github
  printf %s "$TOKEN" | toolroom sources login github`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeSource,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			name := args[0]
			s, ok := r.Config().Sources[name]
			if !ok {
				return toolroom.Errorf(toolroom.CodeNotFound, "there is no source %q", name).
					WithHint("see what there is: toolroom sources list")
			}
			ref := secret.Ref{Scope: name, Name: "token"}
			s, err := withBearer(name, s, "Bearer "+ref.String())
			if err != nil {
				return err
			}
			token, err := a.screen.secret(ctx, "Token for "+name+": ", secret.MaxValue)
			if err != nil {
				return err
			}
			file, err := a.editable()
			if err != nil {
				return err
			}
			if err := r.Parts().Secrets.Set(ctx, ref, token); err != nil {
				return err
			}
			if err := config.AddSource(file, name, s, true); err != nil {
				return err
			}
			a.screen.say("see whether it works: toolroom sources test %s", name)
			return a.screen.printf("%s sends its token from now on\n", name)
		}),
	}
}

// withBearer is the source with an Authorization header; a source that sends no
// requests has no use for one.
func withBearer(name string, s config.Source, value string) (config.Source, error) {
	set := func(headers map[string]string) map[string]string {
		headers = maps.Clone(headers)
		if headers == nil {
			headers = map[string]string{}
		}
		headers["Authorization"] = value
		return headers
	}
	switch {
	case s.MCP != nil && s.MCP.URL != "":
		mcp := *s.MCP
		mcp.Headers = set(mcp.Headers)
		s.MCP = &mcp
	case s.HTTP != nil:
		http := *s.HTTP
		http.Headers = set(http.Headers)
		s.HTTP = &http
	case s.OpenAPI != nil:
		openapi := *s.OpenAPI
		openapi.Headers = set(openapi.Headers)
		s.OpenAPI = &openapi
	default:
		return s, toolroom.Errorf(toolroom.CodeUnsupported, "%s is a program on this machine, which takes no bearer token", name).
			WithHint("give it what it needs in its environment: toolroom sources add --force %s --env KEY=secret://%s/key -- COMMAND", name, name)
	}
	return s, nil
}
