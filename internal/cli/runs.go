package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/room"
)

func (a *app) runsCommand() *cobra.Command {
	var asJSON bool
	var limit int
	c := &cobra.Command{
		Use:   "runs",
		Short: "Show programs that wait for a person, and calls in the background",
		Long: `Show programs that wait for a person, and calls in the background, newest first.

A program that waits outlives the command and the server that began it. After the
answer a server goes on with it, or toolroom runs wait does.`,
		Example: `  toolroom runs
  toolroom runs wait call_4xk2
  toolroom runs cancel call_4xk2`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, _ []string) error {
			jobs, err := r.Jobs(ctx, "", limit)
			if err != nil {
				return err
			}
			if asJSON {
				return a.screen.json(orEmpty(jobs))
			}
			if len(jobs) == 0 {
				a.screen.say("Nothing waits, and nothing runs in the background.")
				return nil
			}
			rows := make([][]string, len(jobs))
			for i, j := range jobs {
				rows[i] = []string{j.ID, j.Call.Tool, string(j.State), when(j.Created), j.Identity.String(), j.Call.Surface, fit(ofJob(j), 60)}
			}
			return a.screen.table([]string{"RUN", "TOOL", "STATE", "SINCE", "BY", "VIA", "WAITS FOR, OR RESULT"}, rows)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print for programs")
	c.Flags().IntVar(&limit, "limit", 50, "most runs to show")
	c.AddCommand(a.runsWaitCommand(), a.runsCancelCommand())
	return c
}

// ofJob is what a job waits for, or what became of it.
func ofJob(j *room.Job) string {
	switch {
	case j.State == run.JobWaiting:
		return strings.Join(j.Approvals, " ")
	case j.Result == nil:
		return ""
	case j.Result.Error != nil:
		return oneLine(j.Result.Error.Message)
	default:
		return oneLine(j.Result.Text())
	}
}

func (a *app) runsWaitCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for the end of a run and print its result; go on with it here if no server does",
		Long: `Wait for the end of a run and print its result. When no server is there to go on
with it, it goes on here, and what it printed is printed from its beginning. Ctrl-C
leaves it as it is.`,
		Example: "  toolroom runs wait call_4xk2",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			r.KeepWaiting(ctx)
			if err := a.tellWaiting(ctx, r, args[0]); err != nil {
				return err
			}
			w := newWatcher(ctx, a, r)
			defer w.close()
			here := false // its output was printed as it came
			result, err := r.Resume(ctx, args[0], func(e toolroom.Event) {
				if e.Kind == toolroom.EventChunk && !asJSON {
					here = true
					if a.printChunk(e.Chunk) != nil {
						return // nobody reads; what matters is that it goes on
					}
				}
				w.watch(e)
			})
			if err != nil {
				return err
			}
			if x := result.Execution; x != nil && !here && !asJSON {
				if err := a.screen.printf("%s", x.Stdout); err != nil {
					return err
				}
				if _, err := io.WriteString(a.Err, x.Stderr); err != nil {
					return err
				}
			}
			return a.endProgram(result, asJSON)
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the whole result envelope")
	return c
}

// tellWaiting says what a run waits for.
func (a *app) tellWaiting(ctx context.Context, r *room.Room, id string) error {
	job, err := r.Job(ctx, id)
	if err != nil {
		return err
	}
	for _, question := range job.Approvals {
		if p, err := r.Approval(ctx, question); err == nil && p.State == approval.Pending {
			a.screen.fail(p.Tool+" is waiting for approval by a person: "+p.Reason, "toolroom approve "+p.ID)
		}
	}
	return nil
}

func (a *app) runsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel RUN",
		Short:   "End a run; what it has done stays done",
		Example: "  toolroom runs cancel call_4xk2",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *room.Room, args []string) error {
			return r.CancelJob(ctx, args[0])
		}),
	}
}
