package cli

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/server"
)

func (a *app) serveCommand() *cobra.Command {
	var listen string
	var stdio bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools over MCP and HTTP",
		Long: `Serve MCP at /mcp and the HTTP API at /api/v1, until Ctrl-C. With --stdio,
serve MCP on stdin and stdout instead: the form that MCP clients start by
themselves.`,
		Example: `  toolroom serve
  toolroom serve --listen 127.0.0.1:8080
  toolroom serve --stdio`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if stdio && listen != "" {
				return usage("leave one of them out", "--stdio serves no address, and --listen gives one")
			}
			return a.serve(c.Context(), listen, stdio)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "address to listen on (default: the config's, 127.0.0.1:7070)")
	c.Flags().BoolVar(&stdio, "stdio", false, "serve MCP on stdin and stdout")
	return c
}

func (a *app) serve(ctx context.Context, listen string, stdio bool) (err error) {
	file, err := a.findConfig()
	if err != nil {
		return err
	}
	r, err := a.openRoom(ctx, slog.LevelInfo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	o := server.Options{
		Listen:     listen,
		ConfigFile: file,
		Version:    a.Version,
		Log:        r.Parts().Log,
		Started: func(at net.Addr) {
			a.screen.say("Toolroom is ready at http://%s (MCP: http://%s/mcp)", at, at)
			if len(r.Sources()) == 0 {
				a.screen.say("%s", firstSteps)
			}
		},
	}
	if stdio {
		return server.ServeStdio(ctx, r, io.NopCloser(a.In), nopCloser{a.Out}, o)
	}
	return server.Serve(ctx, r, o)
}

// nopCloser is stdout, which is not the server's to close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
