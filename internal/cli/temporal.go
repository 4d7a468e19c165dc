package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

func (a *app) temporalCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "temporal",
		Short:   "Let Temporal carry programs and chains over restarts",
		Example: "  toolroom temporal worker",
	}
	onlyHolds(c)
	c.AddCommand(a.temporalWorkerCommand())
	return c
}

func (a *app) temporalWorkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "worker",
		Short: "Make the calls of workflows, until Ctrl-C",
		Long: `Make the calls of workflows with the tools, the policy and the sandboxes of
this machine. Config of workers and of those who start workflows:

  code:
    runtimes:
      temporal: {address: 127.0.0.1:7233, secret: secret://temporal/key}

Who has the secret can have any tool called as anyone, as far as the worker's
policy allows it.`,
		Example: `  openssl rand -hex 32 | toolroom secret set temporal/key
  toolroom temporal worker
  toolroom exec --runtime temporal -l python 'print(tools.math.add(a=1, b=2))'
  toolroom chain --runtime temporal -f steps.yaml`,
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error { return a.workForTemporal(c.Context()) },
	}
}

func (a *app) workForTemporal(ctx context.Context) (err error) {
	r, err := a.openRoom(ctx, slog.LevelInfo)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	w, err := r.Workflows()
	if err != nil {
		return err
	}
	// What an earlier worker left that was killed.
	if n := proc.Sweep() + lockdown.Sweep(); n > 0 {
		a.log(slog.LevelInfo).Warn("removed what an earlier worker left behind", "count", n)
	}
	r.Start(ctx)
	return w.Work(ctx, r, func() { a.screen.say("The worker is ready") })
}
