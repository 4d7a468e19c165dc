package cli

import (
	"bufio"
	"context"
	"os/exec"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/secret"
)

// login holds the flags of sources login.
type login struct {
	token, paste, browser bool
	as                    string
	port                  int
}

func (a *cli) sourcesLoginCommand() *cobra.Command {
	var l login
	c := &cobra.Command{
		Use:   "login NAME",
		Short: "Log in to a remote source",
		Long: `Log in with OAuth to a remote MCP server, or to Google for the built-in google tools. The
command prints an address to open in a browser, waits on this machine for the redirect,
and stores the tokens as secrets. If the browser runs on another machine, --paste reads
the address of the final page instead.

With --token, and for sources that are not MCP servers, it stores your token
as secret://NAME/token and sends it as Authorization: Bearer with each request.
Type the token at a prompt that does not echo, or pipe it in.`,
		Example: `  toolroom sources login github
  toolroom sources login github --paste
  printf %s "$TOKEN" | toolroom sources login github --token`,
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(sourceCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			s, ok := r.Config().Sources[args[0]]
			if !ok && r.PackHasLogin(args[0]) && !l.token {
				return a.logIn(ctx, r, args[0], l)
			}
			if !ok {
				return toolroom.Errorf(toolroom.CodeNotFound, "source %q not found", args[0]).
					WithHint("list the sources: toolroom sources list")
			}
			if l.token || s.MCP == nil || s.MCP.URL == "" {
				return a.storeToken(ctx, r, args[0], s)
			}
			return a.logIn(ctx, r, args[0], l)
		}),
	}
	f := c.Flags()
	f.BoolVar(&l.token, "token", false, "store an existing token instead of logging in")
	f.BoolVar(&l.paste, "paste", false, "read the address of the browser's final page from stdin")
	f.BoolVar(&l.browser, "browser", false, "open the address in this machine's browser")
	f.StringVar(&l.as, "as", "", "log in for this caller: its subject, or its identity as JSON (default: the operator)")
	f.IntVar(&l.port, "port", 0, "local port for the browser's redirect (default: any)")
	c.MarkFlagsMutuallyExclusive("token", "paste")
	return c
}

// caller returns the identity that the login is for.
func (l login) caller() (who toolroom.Identity, err error) {
	if !strings.HasPrefix(l.as, "{") {
		return toolroom.Identity{Subject: l.as}, nil
	}
	if err := jsonx.UnmarshalKnown([]byte(l.as), &who, jsonx.Limits{}); err != nil {
		return who, usage(`--as '{"subject": "ann", "agent": "fast"}'`, "--as is neither a subject nor an identity: %v", err)
	}
	return who, nil
}

// logIn lets the person at the terminal log in.
func (a *cli) logIn(ctx context.Context, r *app.App, name string, l login) error {
	back, err := oauth.NewLoopback(l.port)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeConflict, "cannot listen for the browser's redirect: %w", err).
			WithHint("choose another port: toolroom sources login %s --port 8976", name)
	}
	defer back.Close()
	who, err := l.caller()
	if err != nil {
		return err
	}
	err = r.Login(ctx, name, who, back.Redirect(), func(ctx context.Context, address string) (string, error) {
		if err := back.Expect(address); err != nil {
			return "", err
		}
		a.screen.say("Open this address in a browser and log in:\n\n%s\n", address)
		if l.browser {
			if err := openBrowser(ctx, address); err != nil {
				a.screen.say("The browser could not be opened: %v", err)
			}
		}
		if !l.paste {
			a.screen.say("Waiting for the browser's redirect to %s …", back.Redirect())
			return back.Wait(ctx)
		}
		a.screen.say("Then paste the address of the browser's final page, which begins with %s:", back.Redirect())
		return a.readPastedAddress(ctx)
	})
	if err != nil {
		return err
	}
	if r.PackHasLogin(name) {
		return a.screen.printf("logged in to %s\n", name)
	}
	a.screen.progress("trying " + name + " …")
	test, err := r.TestSource(ctx, name)
	a.screen.progress("")
	if err != nil {
		return err
	}
	if l.as == "" && test.Error != "" {
		a.screen.fail("you are logged in, but "+name+" does not work: "+test.Error, testHint(test.Status))
		return exitCode(toolroom.CodeUpstreamUnavailable.Info().Exit)
	}
	return a.screen.printf("logged in to %s: %s\n", name, count(test.Tools, "tool"))
}

// maxAddress is the maximum length of a pasted address, in bytes.
const maxAddress = 16 << 10

// readPastedAddress reads the address that a person pastes, one line of stdin.
func (a *cli) readPastedAddress(ctx context.Context) (string, error) {
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // ends with the process if nothing is typed
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

// openBrowser opens an address with the system's default browser.
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

// storeToken stores a token that the person already has.
func (a *cli) storeToken(ctx context.Context, r *app.App, name string, s config.Source) error {
	ref := secret.Ref{Scope: name, Name: "token"}
	s, ok := s.WithHeader("Authorization", "Bearer "+ref.String())
	if !ok {
		return toolroom.Errorf(toolroom.CodeUnsupported, "%s is a local program, which takes no bearer token", name).
			WithHint("pass credentials in its environment: toolroom sources add --force %s --env KEY=secret://%s/key -- COMMAND", name, name)
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
	if err := a.recordIn(ctx, r, "secrets.set", changeArguments{Name: ref.Scope + "/" + ref.Name}, nil); err != nil {
		return err
	}
	err = config.AddSource(file, name, s, true, nil, a.keepTrust(file))
	if err := a.recordIn(ctx, r, "sources.edit", changeArguments{Name: name}, err); err != nil {
		return err
	}
	a.screen.say("check it: toolroom sources test %s", name)
	return a.screen.printf("stored the token of %s\n", name)
}
