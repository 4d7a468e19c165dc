package cli

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/policy"
)

func (a *cli) policyTestCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "test FILE",
		Short: "Test the policy against a file of cases",
		Example: `  toolroom policy test policy_test.yaml
  toolroom policy test policy_test.yaml --config staging.yaml --json`,
		Args: arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			cases, err := policy.ReadCases(a.argumentPath(args[0]))
			if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
				return usage("name a file of cases, relative to the folder of the command: toolroom policy test FILE", "%s", err)
			}
			if err != nil {
				return err
			}
			outcomes, err := r.TryPolicy(ctx, cases)
			if err != nil {
				return err
			}
			failed := 0
			for _, o := range outcomes {
				if !o.OK {
					failed++
				}
			}
			if a.asJSON {
				err = a.screen.json(struct {
					OK     bool                 `json:"ok"`
					Failed int                  `json:"failed"`
					Cases  []policy.CaseOutcome `json:"cases"`
				}{failed == 0, failed, outcomes})
			} else {
				err = a.printOutcomes(outcomes, failed)
			}
			if err != nil || failed == 0 {
				return err
			}
			return exitCode(toolroom.ExitFailed)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printOutcomes(outcomes []policy.CaseOutcome, failed int) error {
	for _, o := range outcomes {
		if o.OK {
			continue
		}
		if err := a.screen.printf("FAIL %s\n  %s for %s is %s, by %s\n", o.Case, o.Case.Tool, o.Case.Identity().String(), o.Decision.Effect, o.Decision.Rule); err != nil {
			return err
		}
		for _, line := range o.Differences {
			if err := a.screen.printf("  %s\n", line); err != nil {
				return err
			}
		}
	}
	return a.screen.printf("%s, %d failed\n", count(len(outcomes), "case"), failed)
}

// defaultReplay is the default range of a replay: a week.
const defaultReplay = 7 * 24 * time.Hour

func (a *cli) policyReplayCommand() *cobra.Command {
	var since time.Duration
	c := &cobra.Command{
		Use:   "replay",
		Short: "Show recorded calls that would now be decided differently",
		Long: `Evaluate the calls of the last week under the current config, and show those that
would be decided differently. Nothing is called. Arguments come from the receipts,
in which sensitive values are redacted. Receipts do not record taint labels or
predicted effects.`,
		Example: `  toolroom policy replay
  toolroom policy replay --since 24h --config proposed.yaml --json`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			if since <= 0 {
				return usage("--since 168h", "invalid range %s", since)
			}
			replayed, err := r.ReplayPolicy(ctx, time.Now().Add(-since))
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(replayed)
			}
			return a.printReplayed(replayed, since)
		}),
	}
	c.Flags().DurationVar(&since, "since", defaultReplay, "how far back to start")
	a.jsonFlag(c, "print JSON")
	return c
}

func (a *cli) printReplayed(replayed *policy.ReplayResult, since time.Duration) error {
	if len(replayed.Changes) > 0 {
		rows := make([][]string, len(replayed.Changes))
		for i, c := range replayed.Changes {
			rows[i] = []string{c.Call, c.Tool, c.Identity.String(), string(c.Was), string(c.Now), c.NowRule}
		}
		if err := a.screen.table([]string{"CALL", "TOOL", "BY", "WAS", "NOW", "RULE"}, rows); err != nil {
			return err
		}
	}
	if replayed.Unknown > 0 {
		a.screen.say("skipped: %s without a decision", count(replayed.Unknown, "call"))
	}
	return a.screen.printf("%d of %s in the last %s would now be decided differently\n", len(replayed.Changes), count(replayed.Calls, "call"), since)
}
