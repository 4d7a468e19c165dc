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
	"github.com/toolroom/toolroom/internal/sandbox/remote/runner"
)

func (a *app) runnerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "runner",
		Short:   "Run programs for Toolrooms on other machines",
		Example: "  toolroom runner serve --listen 0.0.0.0:7071 --secret-file keys --tls-cert cert.pem --tls-key key.pem",
	}
	onlyHolds(c)
	c.AddCommand(a.runnerServeCommand())
	return c
}

// runnerOptions are the flags of runner serve.
type runnerOptions struct {
	listen, secretFile, driver string
	cert, key, clientCA        string
	plain                      bool
	most, mostPerSecret        int
	lifetime                   time.Duration
}

func (a *app) runnerServeCommand() *cobra.Command {
	var o runnerOptions
	c := &cobra.Command{
		Use:   "serve --secret-file FILE",
		Short: "Serve sandboxes to the runtime remote of others, until Ctrl-C",
		Long: `Serve sandboxes of this machine to other Toolrooms, whose config says
code: {runtimes: {remote: {url: ..., secret: ...}}}. Every request is signed with
a secret of the file, which has one a line: NAME SECRET, or SECRET alone.`,
		Example: `  openssl rand -hex 32 > keys && chmod 600 keys
  toolroom runner serve --secret-file keys
  toolroom runner serve --secret-file keys --listen 0.0.0.0:7071 --tls-cert cert.pem --tls-key key.pem --client-ca ca.pem`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.serveRunner(c.Context(), o) },
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:7071", "address to listen on")
	f.StringVar(&o.secretFile, "secret-file", "", "file with the secrets of clients")
	f.StringVar(&o.driver, "driver", "process", "what the sandboxes are: toolroom doctor lists the runtimes")
	f.StringVar(&o.cert, "tls-cert", "", "file of the certificate to show (PEM)")
	f.StringVar(&o.key, "tls-key", "", "file of its key (PEM)")
	f.StringVar(&o.clientCA, "client-ca", "", "file with the certificates that those of clients must be signed by (PEM)")
	f.BoolVar(&o.plain, "plain", false, "allow other machines in without TLS")
	f.IntVar(&o.most, "max-sandboxes", 32, "how many there may be at a time")
	f.IntVar(&o.mostPerSecret, "max-per-secret", 0, "how many the holder of one secret may have (all)")
	f.DurationVar(&o.lifetime, "max-lifetime", time.Hour, "how long one may live")
	return c
}

func (a *app) serveRunner(ctx context.Context, f runnerOptions) (err error) {
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
		o.Log.Warn("others on this machine may read the secrets", "file", f.secretFile, "try", "chmod 600 "+f.secretFile)
	}
	// What an earlier runner left that was killed.
	if n := proc.Sweep() + lockdown.Sweep(); n > 0 {
		o.Log.Warn("removed what an earlier runner left behind", "count", n)
	}
	return runner.Serve(ctx, f.listen, o, func(at net.Addr) {
		a.screen.say("The runner is ready at %s (sandboxes: %s)", at, f.driver)
	})
}

// options are what the flags mean.
func (f runnerOptions) options() (o runner.Options, err error) {
	switch {
	case f.secretFile == "":
		return o, usage("openssl rand -hex 32 > keys && toolroom runner serve --secret-file keys", "a runner needs the file of its clients' secrets")
	case (f.cert == "") != (f.key == ""):
		return o, usage("toolroom runner serve --help", "--tls-cert and --tls-key go together")
	case f.clientCA != "" && f.cert == "":
		return o, usage("toolroom runner serve --help", "--client-ca needs --tls-cert and --tls-key")
	case f.most < 1 || f.mostPerSecret < 0 || f.lifetime <= 0:
		return o, usage("toolroom runner serve --help", "--max-sandboxes, --max-per-secret and --max-lifetime are positive")
	}
	o = runner.Options{Plain: f.plain, Most: f.most, MostPerKey: f.mostPerSecret, Lifetime: f.lifetime}
	if o.Keys, err = runner.ReadKeys(f.secretFile); err != nil {
		return o, toolroom.Errorf(toolroom.CodeInvalidArguments, "the secrets of clients: %w", err).WithHint("one secret a line: NAME SECRET, or SECRET alone")
	}
	if f.cert != "" {
		if o.TLS, err = runner.TLS(f.cert, f.key, f.clientCA); err != nil {
			return o, toolroom.Errorf(toolroom.CodeInvalidArguments, "TLS: %w", err).WithHint("see --tls-cert, --tls-key and --client-ca")
		}
	}
	return o, nil
}
