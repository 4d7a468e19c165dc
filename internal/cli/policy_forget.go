package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/internal/app"
)

func (a *cli) policyForgetCommand() *cobra.Command {
	var caller, reason string
	c := &cobra.Command{
		Use:   "forget [SESSION]",
		Short: "Clear the taint labels of a session",
		Long: `Clear the taint labels of a session. A session keeps the labels of everything that it
has read (policy.taint). Clear them only when the model's context no longer holds any of
that content. Without SESSION, it clears the labels of clients that name no session.
The change is recorded.`,
		Example: `  toolroom policy forget s_41 --caller ann --reason "began anew"`,
		Args:    arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			if reason == "" {
				return usage("toolroom policy forget SESSION --reason TEXT", "a reason is required; it is recorded")
			}
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			labels, err := r.ForgetTaint(ctx, caller, session, a.User, reason)
			if err != nil {
				return err
			}
			for _, m := range labels {
				if err := a.screen.printf("cleared: %s\n", m); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&caller, "caller", operator().Key(), "the caller that owns the session")
	c.Flags().StringVar(&reason, "reason", "", "the reason, which is recorded")
	return c
}
