package cli

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/remote"
)

func (a *cli) runnerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "runner",
		Short:   "Run programs for other machines",
		Example: "  toolroom runner serve --listen 0.0.0.0:7071 --secret-file keys --tls-cert cert.pem --tls-key key.pem",
	}
	requireSubcommand(c)
	c.AddCommand(a.runnerServeCommand())
	return c
}

// runnerOptions holds the flags of runner serve.
type runnerOptions struct {
	listen, secretFile, driver string
	cert, key, clientCA        string
	plain                      bool
	maxSandboxes, maxPerSecret int
	lifetime                   time.Duration
}

func (a *cli) runnerServeCommand() *cobra.Command {
	var o runnerOptions
	c := &cobra.Command{
		Use:   "serve --secret-file FILE",
		Short: "Serve sandboxes to the remote runtime of other machines",
		Long: `Serve this machine's sandboxes to other machines until Ctrl-C. Their config has
code: {runtimes: {remote: {url: ..., secret: ...}}}. Every request is signed with a
secret from the file, which holds one per line: NAME SECRET, or SECRET alone.`,
		Example: `  openssl rand -hex 32 > keys && chmod 600 keys
  toolroom runner serve --secret-file keys
  toolroom runner serve --secret-file keys --listen 0.0.0.0:7071 --tls-cert cert.pem --tls-key key.pem --client-ca ca.pem`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.serveRunner(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7071", "address to listen on")
	f.StringVar(&o.secretFile, "secret-file", "", "file of client secrets")
	f.StringVar(&o.driver, "driver", "process", "runtime of the sandboxes: toolroom doctor lists them")
	f.StringVar(&o.cert, "tls-cert", "", "file of the server certificate (PEM)")
	f.StringVar(&o.key, "tls-key", "", "file of the certificate's private key (PEM)")
	f.StringVar(&o.clientCA, "client-ca", "", "file of the CA certificates that sign client certificates (PEM)")
	f.BoolVar(&o.plain, "plain", false, "allow other machines to connect without TLS")
	f.IntVar(&o.maxSandboxes, "max-sandboxes", 32, "maximum number of sandboxes at a time")
	f.IntVar(&o.maxPerSecret, "max-per-secret", 0, "maximum number of sandboxes for one secret (default: no separate limit)")
	f.DurationVar(&o.lifetime, "max-lifetime", time.Hour, "maximum lifetime of a sandbox")
	return c
}

func (a *cli) serveRunner(ctx context.Context, f runnerOptions) (err error) {
	o, err := f.options()
	if err != nil {
		return err
	}
	r, err := a.openRoom(ctx, slog.LevelInfo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if o.Driver, err = r.Driver(f.driver); err != nil {
		return err
	}
	o.Log = a.log(slog.LevelInfo)
	o.Guest, o.GuestArgs = r.Guest().Path, r.Guest().Args
	if info, err := os.Stat(f.secretFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		o.Log.Warn("other users of this machine can read the secrets", "file", f.secretFile, "try", "chmod 600 "+f.secretFile)
	}
	// Remove the leftovers of a killed runner.
	if n := proc.Sweep() + lockdown.Sweep(); n > 0 {
		o.Log.Warn("removed leftovers of a crashed runner", "count", n)
	}
	return remote.Serve(ctx, f.listen, o, func(at net.Addr) {
		a.screen.say("The runner is ready at %s (sandboxes: %s)", at, f.driver)
	})
}

// options converts the flags.
func (f runnerOptions) options() (o remote.RunnerOptions, err error) {
	switch {
	case f.secretFile == "":
		return o, usage("openssl rand -hex 32 > keys && toolroom runner serve --secret-file keys", "--secret-file is required")
	case (f.cert == "") != (f.key == ""):
		return o, usage("toolroom runner serve --help", "--tls-cert and --tls-key must be used together")
	case f.clientCA != "" && f.cert == "":
		return o, usage("toolroom runner serve --help", "--client-ca needs --tls-cert and --tls-key")
	case f.maxSandboxes < 1 || f.maxPerSecret < 0 || f.lifetime <= 0:
		return o, usage("toolroom runner serve --help", "--max-sandboxes, --max-per-secret and --max-lifetime must be positive")
	}
	o = remote.RunnerOptions{Plain: f.plain, Most: f.maxSandboxes, MostPerKey: f.maxPerSecret, Lifetime: f.lifetime}
	if o.Keys, err = remote.ReadKeys(f.secretFile); err != nil {
		return o, toolroom.Errorf(toolroom.CodeInvalidArguments, "client secrets: %w", err).WithHint("one secret per line: NAME SECRET, or SECRET alone")
	}
	if f.cert != "" {
		if o.TLS, err = remote.TLS(f.cert, f.key, f.clientCA); err != nil {
			return o, toolroom.Errorf(toolroom.CodeInvalidArguments, "TLS: %w", err).WithHint("see --tls-cert, --tls-key and --client-ca")
		}
	}
	return o, nil
}
