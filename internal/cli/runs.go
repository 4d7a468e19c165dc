package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
)

func (a *cli) runsCommand() *cobra.Command {
	var p paging
	c := &cobra.Command{
		Use:   "runs",
		Short: "List suspended programs and background calls",
		Long: `List suspended programs and background calls, newest first.

A suspended program survives the command and the server that started it. After the
answer, a server or toolroom runs wait resumes it.`,
		Example: `  toolroom runs
  toolroom runs wait call_4xk2
  toolroom runs cancel call_4xk2`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			jobs, err := r.Jobs(ctx, "", receipt.MaxLimit)
			if err == nil {
				jobs, err = pageOf(a, &p, jobs, func(j *run.Job) string { return j.ID })
			}
			if err != nil {
				return err
			}
			short := a.screen.shortIDs(textsOf(jobs, func(j *run.Job) string { return j.ID }))
			headers := []string{"RUN", "TOOL", "STATE", "SINCE", "BY", "VIA", "WAITS FOR, OR RESULT"}
			return showList(a, jobs, "There are no suspended programs and no background calls.", headers, func(j *run.Job) []string {
				return []string{short[j.ID], j.Call.Tool, string(j.State), a.screen.when(j.Created), j.Identity.String(), j.Call.Surface, truncate(jobSummary(j), 60)}
			})
		}),
	}
	a.jsonFlag(c, "print JSON")
	p.flags(c, 50)
	c.AddCommand(a.runsWaitCommand(), a.runsCancelCommand())
	return c
}

// jobSummary returns what a job waits for, or its result, in one line.
func jobSummary(j *run.Job) string {
	switch {
	case j.State == toolroom.JobWaiting:
		return strings.Join(j.Approvals, " ")
	case j.Result == nil:
		return ""
	case j.Result.Error != nil:
		return oneLine(j.Result.Error.Message)
	default:
		return oneLine(j.Result.Text())
	}
}

func (a *cli) runsWaitCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "wait RUN",
		Short: "Wait for a run to finish and print its result",
		Long: `Wait for a run to finish and print its result. If no server is running, the run is
resumed here, and its output is printed from the beginning. Ctrl-C leaves the run
unchanged.`,
		Example: "  toolroom runs wait call_4xk2",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			id, err := jobID(ctx, r, args[0])
			if err != nil {
				return err
			}
			ctx, end := app.Detachable(ctx)
			defer end()
			if err := a.printPendingApprovals(ctx, r, id); err != nil {
				return err
			}
			w := newWatcher(ctx, a, r)
			defer w.close()
			here := false // its output was printed while it ran
			result, err := r.Resume(ctx, id, func(e toolroom.Event) {
				if e.Kind == toolroom.EventChunk && !a.asJSON {
					here = true
					if a.printChunk(e.Chunk) != nil {
						return // the output is lost, but the run continues
					}
				}
				w.watch(e)
			})
			if err != nil {
				return err
			}
			if x := result.Execution; x != nil && !here && !a.asJSON {
				if err := a.screen.printf("%s", x.Stdout); err != nil {
					return err
				}
				if err := a.screen.output(true, x.Stderr); err != nil {
					return err
				}
			}
			return a.reportProgram(result)
		}),
	}
	a.jsonFlag(c, "print the complete result as JSON")
	return c
}

// printPendingApprovals prints the approvals that a run waits for.
func (a *cli) printPendingApprovals(ctx context.Context, r *app.App, id string) error {
	job, err := r.Job(ctx, id)
	if err != nil {
		return err
	}
	for _, question := range job.Approvals {
		if p, err := r.Approval(ctx, question); err == nil && p.State == toolroom.ApprovalPending {
			a.screen.fail(p.Tool+" is waiting for approval by a person: "+p.Reason, "toolroom approve "+p.ID)
		}
	}
	return nil
}

func (a *cli) runsCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "cancel RUN",
		Short:   "Cancel a run; its effects are not undone",
		Example: "  toolroom runs cancel call_4xk2",
		Args:    arguments(1, 1),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			id, err := jobID(ctx, r, args[0])
			if err != nil {
				return err
			}
			job, err := r.Job(ctx, id)
			if err != nil {
				return err
			}
			if job.State == toolroom.JobDone {
				return a.screen.printf("run %s had already ended\n", id)
			}
			if err := r.CancelJob(ctx, id); err != nil {
				return err
			}
			if job, err = r.Job(ctx, id); err != nil {
				return err
			}
			if job.State != toolroom.JobDone {
				return a.screen.printf("run %s is being cancelled\n", id) // another process runs it
			}
			return a.screen.printf("cancelled run %s\n", id)
		}),
	}
}
