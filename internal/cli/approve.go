package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/nearest"
)

func (a *cli) approveCommand() *cobra.Command {
	var decline, watch, yes bool
	var comment, scope string
	c := &cobra.Command{
		Use:   "approve [ID]",
		Short: "List or answer approvals",
		Long: `List the waiting approvals, newest first, or answer one. On a terminal, approve shows
the call, its effects and its diff, and asks. Without a terminal, or with --yes, it
approves the call.`,
		Example: `  toolroom approve
  toolroom approve show apr_k3j2h4
  toolroom approve apr_k3j2h4
  toolroom approve k3j2h4 --yes
  toolroom approve apr_k3j2h4 --for session
  toolroom approve apr_k3j2h4 --decline --comment "not on production"
  toolroom approve --watch`,
		Args:              arguments(0, 1),
		ValidArgsFunction: a.complete(approvalCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			switch {
			case watch && (len(args) > 0 || decline || yes || comment != "" || scope != "" || a.asJSON):
				return usage("toolroom approve --watch", "--watch takes no ID and no other flags")
			case decline && yes:
				return usage("use only one of them", "--yes and --decline exclude each other")
			case decline && scope != "":
				return usage("toolroom approve ID --decline", "--for is the scope of an approval; a decline always counts once")
			case watch:
				return a.watchApprovals(ctx, r)
			case len(args) > 0:
				if scope != "" {
					if err := oneOf("--for", scope, scopeNames()...); err != nil {
						return err
					}
				}
				id, err := approvalID(ctx, r, args[0])
				if err != nil {
					return err
				}
				// A scope or a comment is an answer already.
				if !decline && !yes && !a.asJSON && scope == "" && comment == "" && a.screen.interactive() {
					return a.askApproval(ctx, r, id)
				}
				return a.answerApproval(ctx, r, id, toolroom.Answer{Approve: !decline, By: a.User, Comment: comment, Scope: toolroom.ApprovalScope(scope)})
			case decline || yes || comment != "" || scope != "":
				return usage("toolroom approve ID --decline", "answering needs the id of an approval")
			}
			return a.listApprovals(ctx, r)
		}),
	}
	f := c.Flags()
	f.BoolVar(&decline, "decline", false, "decline the call")
	f.StringVar(&scope, "for", "", "scope of the approval: once (the default), call (this exact call), session, always")
	f.StringVar(&comment, "comment", "", "the reason, which the caller sees")
	f.BoolVarP(&yes, "yes", "y", false, "approve without asking on the terminal")
	f.BoolVar(&watch, "watch", false, "keep watching and ask on the terminal, until Ctrl-C")
	a.jsonFlag(c, "print JSON")
	completeValues(c, "for", scopeNames()...)
	c.AddCommand(a.approveRulesCommand(), a.approveShowCommand())
	return c
}

func (a *cli) approveShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "show ID",
		Short:             "Show an approval: the call, its effects and diff",
		Example:           "  toolroom approve show apr_k3j2h4",
		Args:              arguments(1, 1),
		ValidArgsFunction: a.complete(approvalCandidates),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, args []string) error {
			id, err := approvalID(ctx, r, args[0])
			if err != nil {
				return err
			}
			one, err := r.Approval(ctx, id)
			if err != nil {
				return err
			}
			if a.asJSON {
				return a.screen.json(one)
			}
			return a.screen.pagedFields(ctx,
				"approval", one.ID,
				"state", string(one.State)+formatVotes(one),
				"tool", one.Tool,
				"by", one.Identity.String(),
				"environment", one.Environment,
				"arguments", indentJSON(one.Arguments),
				"code", codeIn(one.Arguments),
				"effects", strings.Join(one.Effects, "\n"),
				"diff", one.Diff,
				"rule", one.Reason,
				"call", one.Call,
				"asked", formatTime(one.Created),
				"until", formatTime(one.Expires),
			)
		}),
	}
	a.jsonFlag(c, "print JSON")
	return c
}

func scopeNames() []string {
	var words []string
	for _, s := range approval.Scopes() {
		words = append(words, string(s))
	}
	return words
}

// askApproval shows an approval, asks the person for an answer, and prints the state after it.
func (a *cli) askApproval(ctx context.Context, r *app.App, id string) error {
	if err := a.decide(ctx, r, id); err != nil {
		return err
	}
	done, err := r.Approval(ctx, id)
	if err != nil {
		return err
	}
	return a.screen.printf("%s %s: %s\n", done.ID, done.State, done.Tool)
}

// answerApproval records an answer and prints the state of the approval.
func (a *cli) answerApproval(ctx context.Context, r *app.App, id string, answer toolroom.Answer) error {
	question, err := r.Approval(ctx, id)
	if err != nil {
		return err
	}
	waiting := suspendedBy(ctx, r, question) // asked first: a server resumes it at once
	done, err := r.Answer(ctx, id, answer)
	if err != nil {
		return err
	}
	if a.asJSON {
		return a.screen.json(done)
	}
	if n := done.Missing(); n > 0 {
		return a.screen.printf("%s needs %s: %s %s\n", done.ID, count(n, "more answer"), done.Tool, done.Arguments)
	}
	if err := a.screen.printf("%s %s: %s %s\n", done.ID, done.State, done.Tool, done.Arguments); err != nil {
		return err
	}
	a.sayCallerGone(ctx, r, done, waiting)
	return a.sayGrant(ctx, r, done)
}

func (a *cli) listApprovals(ctx context.Context, r *app.App) error {
	pending, err := r.Approvals(ctx, toolroom.ApprovalPending)
	if err != nil {
		return err
	}
	slices.Reverse(pending) // newest first
	if len(pending) > 0 && !a.asJSON && a.screen.outTerminal && !a.screen.wide {
		return a.foldApprovals(pending)
	}
	err = showList(a, pending, "No approvals are waiting.", []string{"APPROVAL", "TOOL", "BY", "LEFT", "RULE", "ARGUMENTS"}, func(p *toolroom.Approval) []string {
		return []string{p.ID, p.Tool, p.Identity.String(), time.Until(p.Expires).Round(time.Second).String(), p.Reason + formatVotes(p), string(p.Arguments)}
	})
	if err == nil && len(pending) > 0 && !a.asJSON {
		a.screen.say("answer: toolroom approve %s [--decline]", pending[0].ID)
	}
	return err
}

// foldApprovals lists approvals with their whole arguments, whatever the width of the
// terminal: a table would cut the part that matters.
func (a *cli) foldApprovals(pending []*toolroom.Approval) error {
	for _, p := range pending {
		err := a.screen.printf("%s  %s  by %s, %s left\n  rule       %s%s\n  arguments  %s\n  answer     toolroom approve %s [--decline]\n",
			p.ID, oneLine(p.Tool), oneLine(p.Identity.String()), time.Until(p.Expires).Round(time.Second), oneLine(p.Reason), formatVotes(p), oneLine(string(p.Arguments)), p.ID)
		if err != nil {
			return err
		}
	}
	return nil
}

// formatVotes returns how many people have approved, if several must, or an empty text.
func formatVotes(p *toolroom.Approval) string {
	if p.People <= 1 {
		return ""
	}
	return fmt.Sprintf(" (%d of %d have approved)", len(p.Votes), p.People)
}

// watchApprovals asks about every pending approval, or only shows it if the terminal is not
// interactive, until ctx ends.
func (a *cli) watchApprovals(ctx context.Context, r *app.App) error {
	shown := map[string]bool{}
	if a.screen.interactive() {
		a.screen.say("waiting for approvals; Ctrl-C ends")
	}
	for {
		pending, err := r.Approvals(ctx, toolroom.ApprovalPending)
		if err != nil {
			return err
		}
		for _, p := range pending {
			if shown[p.ID] {
				continue
			}
			shown[p.ID] = true
			if err := a.presentApproval(ctx, r, p); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(followPause):
		}
	}
}

// presentApproval asks about a pending approval, or prints it if nobody can answer here.
func (a *cli) presentApproval(ctx context.Context, r *app.App, p *toolroom.Approval) error {
	if !a.screen.interactive() {
		return a.screen.printf("%s  %s  %s  %s\n", p.ID, p.Tool, p.Reason, p.Arguments)
	}
	if err := a.askApproval(ctx, r, p.ID); err != nil {
		if ctx.Err() != nil {
			return err
		}
		// Another person answered first, or the approval expired: continue with the next.
		a.screen.say("%s", err)
	}
	return nil
}

func (a *cli) approveRulesCommand() *cobra.Command {
	var remove string
	c := &cobra.Command{
		Use:   "rules",
		Short: "List or remove grants: approvals for more than one call",
		Example: `  toolroom approve rules
  toolroom approve rules --remove apg_k3j2h4`,
		Args: arguments(0, 0),
		RunE: a.withRoom(func(ctx context.Context, r *app.App, _ []string) error {
			grants, err := r.Grants(ctx)
			if err != nil {
				return err
			}
			if remove != "" {
				if remove, err = nearest.ID(remove, textsOf(grants, func(g *toolroom.Grant) string { return g.ID })); err != nil {
					return err
				}
				if err := r.RemoveGrant(ctx, remove); err != nil {
					return err
				}
				return a.screen.printf("removed grant %s; its calls need approval again\n", remove)
			}
			slices.Reverse(grants) // newest first
			return showList(a, grants, "There are no grants.", []string{"RULE", "TOOL", "CALLER", "FOR", "BY", "SINCE", "UNTIL"}, grantRow)
		}),
	}
	c.Flags().StringVar(&remove, "remove", "", "remove this grant")
	a.jsonFlag(c, "print JSON")
	return c
}

func grantRow(g *toolroom.Grant) []string {
	return []string{g.ID, g.Tool, g.Identity.String(), string(g.Scope), g.By, formatTime(g.Created), cmp.Or(formatTime(g.Expires), "removed")}
}
