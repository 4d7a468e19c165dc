package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom/room"
)

func (a *app) policyForgetCommand() *cobra.Command {
	var caller, reason string
	c := &cobra.Command{
		Use:   "forget [SESSION]",
		Short: "End what a session has in reach; without SESSION, of clients that name none",
		Long: `What a session has read (policy.taint) stays in reach of it. This ends that: say
so only when nothing of it is in the model's context any more. It is recorded.`,
		Example: `  toolroom policy forget s_41 --caller ann --reason "began anew"`,
		Args:    arguments(0, 1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			if reason == "" {
				return usage("toolroom policy forget SESSION --reason TEXT", "say why: it is recorded")
			}
			session := ""
			if len(args) > 0 {
				session = args[0]
			}
			marks, err := r.ForgetReach(ctx, caller, session, a.User, reason)
			if err != nil {
				return err
			}
			for _, m := range marks {
				if err := a.screen.printf("not in reach any more: %s\n", m); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	c.Flags().StringVar(&caller, "caller", me().Key(), "whose session it is")
	c.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	return c
}
