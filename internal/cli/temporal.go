package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

func (a *cli) temporalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "temporal",
		Short:   "Run programs and chains as Temporal workflows",
		Example: "  toolroom temporal worker",
	}
	requireSubcommand(c)
	c.AddCommand(a.temporalWorkerCommand())
	return c
}

func (a *cli) temporalWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Run a worker for workflows until Ctrl-C",
		Long: `Run workflows with the tools, policy and sandboxes of this machine, until Ctrl-C.
Workers and servers that start workflows share this config:

  code:
    runtimes:
      temporal: {address: 127.0.0.1:7233, secret: secret://temporal/key}

Whoever has the secret can call any tool as any identity, within the worker's
policy.`,
		Example: `  openssl rand -hex 32 | toolroom secret set temporal/key
  toolroom temporal worker
  toolroom exec --runtime temporal -l python 'print(tools.math.add(a=1, b=2))'
  toolroom chain --runtime temporal -f steps.yaml`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if a.Foreign == nil {
				return a.runInRunner(c.Context())
			}
			return a.runTemporalWorker(c.Context())
		},
	}
}

func (a *cli) runTemporalWorker(ctx context.Context) (err error) {
	r, err := a.openRoom(ctx, slog.LevelInfo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	workflows, err := r.Workflows()
	if err != nil {
		return err
	}
	w, ok := workflows.(app.Worker)
	if !ok {
		return toolroom.Errorf(toolroom.CodeUnsupported, "only %s has a worker", app.RunnerName)
	}
	// Remove the leftovers of a killed worker.
	if n := proc.Sweep() + lockdown.Sweep(); n > 0 {
		a.log(slog.LevelInfo).Warn("removed leftovers of a crashed worker", "count", n)
	}
	r.Start(ctx)
	return w.Work(ctx, r, func() { a.screen.say("The worker is ready") })
}
