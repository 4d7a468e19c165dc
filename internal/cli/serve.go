package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/cli/start/collector"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/consent"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/server"
)

func (a *cli) serveCommand() *cobra.Command {
	var who caller
	var listen string
	var stdio bool
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools over MCP and HTTP",
		Long: `Serve MCP at /mcp and the HTTP API at /api/v1 until Ctrl-C. With --stdio, serve
MCP on stdin and stdout instead, for clients that start the server themselves.`,
		Example: `  toolroom serve
  toolroom serve --listen 127.0.0.1:8080
  toolroom serve --stdio
  toolroom serve --stdio --set review`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if stdio && listen != "" {
				return usage("use only one of them", "--stdio and --listen exclude each other")
			}
			if _, _, err := net.SplitHostPort(listen); listen != "" && err != nil {
				return usage("for example: toolroom serve --listen 127.0.0.1:7070", "%q is not host:port", listen)
			}
			if !stdio && (who != caller{}) {
				return usage("the headers Toolroom-Agent, Toolroom-Provider, Toolroom-Skill and Toolroom-Environment, and the path /mcp/p/SET", "over HTTP, each request names its own agent, provider, skill, tool set and environment")
			}
			return a.serve(c.Context(), listen, stdio, who)
		},
	}
	c.Flags().StringVar(&listen, "listen", "", "address to listen on (default: the config's, 127.0.0.1:7070)")
	c.Flags().StringVar(&who.environment, "env", "", "with --stdio: environment whose released versions serve the calls")
	c.Flags().BoolVar(&stdio, "stdio", false, "serve MCP on stdin and stdout")
	who.identityFlags(c)
	return c
}

func (a *cli) serve(ctx context.Context, listen string, stdio bool, who caller) (err error) {
	file, err := a.findConfig()
	if err != nil {
		return err
	}
	a.exitIfStuck(ctx, stopLimit)
	opening, record := a.options(file, slog.LevelInfo), ""
	if opening.Verify != nil {
		record = consent.Open(a.home).Path()
	}
	opening.Receipts = a.Out
	if stdio {
		opening.Receipts = a.Err // stdout carries the protocol
	}
	collector.Resume() // a start without collections would leave more memory behind
	r, err := a.open(ctx, opening)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := errors.Join(r.CheckEnvironment(who.environment), r.CheckSet(who.set)); err != nil {
		return err
	}
	if stdio && a.screen.inTerminal {
		a.screen.say("waiting for an MCP client on stdin; clients start this command themselves: toolroom connect")
	}
	local := &localAPI{}
	o := server.Options{
		Listen:      listen,
		Client:      who.identity(),
		Environment: who.environment,
		ConfigFile:  file,
		Verify:      opening.Verify,
		Record:      record,
		Wrote:       a.keepTrust,
		Version:     a.Version,
		Log:         r.Parts().Log,
		Started: func(at net.Addr) {
			local.setAddress("http://" + at.String())
			if local.logOtherServer != nil {
				local.logOtherServer()
			}
			a.screen.say("Toolroom is ready at http://%s (MCP: http://%s/mcp)", at, at)
			if len(r.Sources()) == 0 {
				a.screen.say("%s", firstSteps)
			}
			c, address := r.Config().Server, cmp.Or(listen, r.Config().Server.Listen)
			for _, line := range []string{openAccessNotice(address, c.Auth), plainHTTPWarning(address, c)} {
				if line != "" {
					a.screen.say("%s", line)
				}
			}
		},
		Listed: func(listings []server.Listing) {
			for _, l := range listings {
				a.screen.say("%s", listingLine(l))
			}
			collector.Seldom()
			time.AfterFunc(settleTime, releaseMemory)
		},
	}
	defer a.reopenOnHangup(r)()
	if !stdio {
		o.Local = local.setHandler
		o.Reloads = func(again func() (server.Reloaded, error)) { local.reloadFunc.Store(&again) }
		defer a.listenCommands(ctx, r, file, local)()
	}
	if stdio {
		return server.ServeStdio(ctx, r, io.NopCloser(a.In), nopCloser{a.Out}, o)
	}
	err = server.Serve(ctx, r, o)
	if first := describeServer(a.home); errors.Is(err, syscall.EADDRINUSE) && strings.HasSuffix(first, " at http://"+cmp.Or(listen, r.Config().Server.Listen)) {
		return usage("its state: toolroom status; another one beside it: toolroom serve --listen 127.0.0.1:7071",
			"a server of this home (%s) is running already: %s", a.home, first)
	}
	return err
}

// stopLimit is the longest time that a server takes to stop. Running calls may take 10 s of it,
// and what the server uses is closed in the rest.
const stopLimit = time.Minute

// exitIfStuck ends the process if it still runs when limit has passed since the end of ctx: a
// disk may not answer, or nobody may read what the process writes.
func (a *cli) exitIfStuck(ctx context.Context, limit time.Duration) {
	if a.Exit == nil {
		return
	}
	context.AfterFunc(ctx, func() {
		time.Sleep(limit)
		said := make(chan struct{})
		go func() { // this may wait as well
			defer close(said)
			a.screen.fail(fmt.Sprintf("the server did not stop within %s and was ended", limit), "")
		}()
		select {
		case <-said:
		case <-time.After(time.Second):
		}
		a.Exit(toolroom.ExitError)
	})
}

// settleTime is how long a server may still work on its start after it has listed its tools: it
// builds its indexes and opens its watchers.
const settleTime = 2 * time.Second

// releaseMemory gives back the memory that only the start needed.
func releaseMemory() {
	debug.FreeOSMemory()
	proc.ReleasePages()
}

// openAccessNotice describes who may call a server that listens on all addresses. It is empty
// for a server that does not.
func openAccessNotice(listen string, auth config.Auth) string {
	host, _, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return ""
	}
	who := "Clients on other machines need a token: toolroom token create NAME"
	if auth.Required == "never" {
		who = "Whoever reaches one may call every tool: server.auth.required is never."
	}
	return "It listens on all addresses of this machine. " + who
}

// plainHTTPWarning returns a warning about a server that other machines reach over plain HTTP.
// It is empty if only this machine reaches it, or if it or its proxy has a certificate.
func plainHTTPWarning(listen string, c config.Server) string {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	if err != nil || host == "localhost" || ip != nil && ip.IsLoopback() || c.TLS.Cert != "" || strings.HasPrefix(c.URL, "https://") {
		return ""
	}
	return "Connections are not encrypted: whoever can listen to the network reads tokens and results. Set server.tls.cert and server.tls.key, or put a proxy with TLS in front and set server.url."
}

// reopenOnHangup reopens the receipt log at each SIGHUP, the usual signal of log rotation.
func (a *cli) reopenOnHangup(r *app.App) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var listening sync.WaitGroup
	listening.Go(func() {
		for range hangups {
			if err := r.ReopenLog(); err != nil {
				a.screen.fail("cannot reopen the receipt log: "+err.Error(), "")
			}
		}
	})
	return func() { signal.Stop(hangups); close(hangups); listening.Wait() }
}

// nopCloser is stdout, which the server must not close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
