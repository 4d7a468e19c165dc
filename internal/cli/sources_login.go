package cli

import (
	"bufio"
	"context"
	"maps"
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/room"
)

// login holds the flags of sources login.
type login struct {
	token, paste, browser bool
	as                    string
	port                  int
}

func (a *app) sourcesLoginCommand() *cobra.Command {
	var l login
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to a remote source",
		Long: `Log in to a remote MCP server with OAuth: the command prints an address to open
in a browser, waits on this machine for the browser to come back, and keeps the
tokens among the secrets. Where the browser runs on another machine, --paste
reads the address that it ended at in place of waiting for it.

With --token, and for sources that are not MCP servers, it keeps a token that
you have under secret://NAME/token, and sends it as Authorization: Bearer with
each request. The token is typed at a prompt that does not show it, or read from
stdin.`,
		Example: `  toolroom sources login github
  toolroom sources login github --paste
  printf %s "$TOKEN" | toolroom sources login github --token`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.completeSource,
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			s, ok := r.Config().Sources[args[0]]
			if !ok {
				return toolroom.Errorf(toolroom.CodeNotFound, "there is no source %q", args[0]).
					WithHint("see what there is: toolroom sources list")
			}
			if l.token || s.MCP == nil || s.MCP.URL == "" {
				return a.keepToken(ctx, r, args[0], s)
			}
			return a.logIn(ctx, r, args[0], l)
		}),
	}
	f := c.Flags()
	f.BoolVar(&l.token, "token", false, "keep a token that you have, in place of logging in")
	f.BoolVar(&l.paste, "paste", false, "read the address that the browser ended at from stdin")
	f.BoolVar(&l.browser, "browser", false, "open the address in this machine's browser")
	f.StringVar(&l.as, "as", "", "log in for this caller, by the name of its token (default: who runs Toolroom)")
	f.IntVar(&l.port, "port", 0, "port of this machine that the browser comes back to (default: any)")
	c.MarkFlagsMutuallyExclusive("token", "paste")
	return c
}

// logIn lets the person at the screen log in.
func (a *app) logIn(ctx context.Context, r *room.Room, name string, l login) error {
	back, err := oauth.NewLoopback(l.port)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeConflict, "this machine cannot be come back to: %w", err).
			WithHint("choose another port: toolroom sources login %s --port 8976", name)
	}
	defer back.Close()
	err = r.Login(ctx, name, toolroom.Identity{Subject: l.as}, back.Redirect(), func(ctx context.Context, address string) (string, error) {
		a.screen.say("Open this address in a browser and log in:\n\n%s\n", address)
		if l.browser {
			if err := openBrowser(ctx, address); err != nil {
				a.screen.say("The browser could not be opened: %v", err)
			}
		}
		if !l.paste {
			a.screen.say("Waiting for the browser to come back to %s …", back.Redirect())
			return back.Wait(ctx)
		}
		a.screen.say("Then paste the address that the browser ended at, which begins with %s:", back.Redirect())
		return a.pasted(ctx)
	})
	if err != nil {
		return err
	}
	a.screen.progress("trying " + name + " …")
	test, err := r.TestSource(ctx, name)
	a.screen.progress("")
	if err != nil {
		return err
	}
	if l.as == "" && test.Error != "" {
		a.screen.fail("you are logged in, but "+name+" does not work: "+test.Error, testHint(test.SourceStatus))
		return exitCode(toolroom.CodeUpstreamUnavailable.Info().Exit)
	}
	return a.screen.printf("logged in to %s: %s\n", name, count(test.Tools, "tool"))
}

// maxAddress is the longest address that is read, in bytes.
const maxAddress = 16 << 10

// pasted reads a line from stdin.
func (a *app) pasted(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the process where nothing is typed
		in := bufio.NewScanner(a.screen.in)
		in.Buffer(nil, maxAddress)
		in.Scan()
		read <- line{in.Text(), in.Err()}
	}()
	select {
	case l := <-read:
		if l.text == "" && l.err == nil {
			return "", usage("toolroom sources login NAME", "no address was pasted")
		}
		return l.text, l.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// openBrowser opens an address with what the system has for it.
func openBrowser(ctx context.Context, address string) error {
	switch runtime.GOOS {
	case "darwin":
		return exec.CommandContext(ctx, "open", address).Run()
	case "windows":
		return exec.CommandContext(ctx, "rundll32", "url.dll,FileProtocolHandler", address).Run()
	default:
		return exec.CommandContext(ctx, "xdg-open", address).Run()
	}
}

// keepToken keeps a token that the person has.
func (a *app) keepToken(ctx context.Context, r *room.Room, name string, s config.Source) error {
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
