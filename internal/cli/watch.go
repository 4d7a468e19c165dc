package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/approval"
)

// watcher shows the events of a call to a person, and asks for approval if the call needs
// it and a person is there. Asking does not delay the call's events, because the answer may
// also come from another place.
type watcher struct {
	cli  *cli
	room *app.App
	ctx  context.Context
	// noWait means that a call that needs approval fails, so the person is not asked.
	noWait bool

	stop   context.CancelFunc
	asking sync.WaitGroup
}

func newWatcher(ctx context.Context, a *cli, r *app.App) *watcher {
	return &watcher{cli: a, room: r, ctx: ctx, stop: func() {}}
}

// watch shows one event.
func (w *watcher) watch(e toolroom.Event) {
	screen := w.cli.screen
	switch {
	case e.Kind == toolroom.EventProgress && e.Progress != nil:
		screen.progress(progressLine(e.Tool, e.Progress))
	case e.Kind == toolroom.EventLog && e.Log != nil && screen.errTerminal:
		screen.say("%s: %s", e.Log.Level, e.Log.Message)
	case e.Kind == toolroom.EventApproval && e.Approval != nil:
		w.approval(e)
	case e.Final():
		w.close()
	}
}

func (w *watcher) approval(e toolroom.Event) {
	w.close()
	switch toolroom.ApprovalState(e.Approval.State) {
	case toolroom.ApprovalPending:
	default:
		w.cli.screen.say("%s: %s", e.Approval.ID, e.Approval.State)
		return
	}
	if w.noWait {
		return
	}
	if !w.cli.screen.interactive() {
		w.cli.screen.fail(e.Tool+" is waiting for approval by a person: "+e.Approval.Reason,
			"toolroom approve "+e.Approval.ID)
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.stop = stop
	w.asking.Go(func() {
		// This failure does not end the call, which keeps waiting.
		if err := w.cli.decide(ctx, w.room, e.Approval.ID); err != nil && ctx.Err() == nil {
			w.cli.screen.fail(err.Error(), toolroom.AsError(err).Hint)
		}
	})
}

// close withdraws an open question and waits until it is withdrawn.
func (w *watcher) close() {
	w.stop()
	w.asking.Wait()
	w.cli.screen.progress("")
}

// decide shows an approval to the person at the terminal and records the answer.
func (a *cli) decide(ctx context.Context, r *app.App, id string) error {
	question, err := r.Approval(ctx, id)
	if err != nil {
		return err
	}
	if err := approval.CheckPending(question); err != nil {
		return err
	}
	if err := a.showApproval(ctx, question); err != nil {
		return err
	}
	var answer toolroom.Answer
	for known := false; !known; {
		typed, err := a.screen.ask(ctx, questionFor(question))
		if err != nil {
			return err
		}
		if answer, known = typedAnswer(typed, a.User); !known {
			a.screen.say("%q is no answer: type y, n, n and a reason, or how long it holds", typed)
		}
	}
	waiting := suspendedBy(ctx, r, question)
	done, err := r.Answer(ctx, id, answer)
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the call may already have ended
	a.sayCallerGone(ctx, r, done, waiting)
	return a.sayGrant(ctx, r, done)
}

// suspendedBy returns the suspended program that waits for an answer, or "".
func suspendedBy(ctx context.Context, r *app.App, question *toolroom.Approval) string {
	asked, err := r.Receipt(ctx, question.Call)
	if err != nil || asked.Parent == "" {
		return ""
	}
	job, err := r.Job(ctx, asked.Parent)
	if err != nil || job.State == toolroom.JobDone || !slices.Contains(job.Approvals, question.ID) {
		return ""
	}
	return job.ID
}

// sayCallerGone prints what an approval causes if its caller no longer waits. waiting is the
// suspended program that waited for the answer, if any.
func (a *cli) sayCallerGone(ctx context.Context, r *app.App, done *toolroom.Approval, waiting string) {
	if waiting != "" {
		switch {
		case done.State == toolroom.ApprovalPending: // more people must answer
		case a.shared != nil || serverRuns(a.home):
			a.screen.say("its program continues by itself; read its result with: toolroom runs wait %s", waiting)
		default:
			a.screen.say("its program continues when you type: toolroom runs wait %s", waiting)
		}
		return
	}
	if done.State != toolroom.ApprovalApproved || done.Call == "" {
		return
	}
	if ended, err := r.Receipt(ctx, done.Call); err == nil && ended.ID == done.Call {
		a.screen.say("its caller no longer waits; the same call, made again, runs once without asking")
	}
}

// questionFor returns the possible answers to an approval.
func questionFor(p *toolroom.Approval) string {
	words := []string{"y"}
	for _, s := range approval.PermittedScopes(p) {
		if s != toolroom.ScopeOnce {
			words = append(words, string(s))
		}
	}
	return "Run it? [" + strings.Join(words, "/") + "/N]"
}

// typedAnswer parses a typed answer: y, the scope of a yes, or no, which may also be an empty
// line. The words after no are a comment for the caller. The boolean is false for any other
// text, because a typing mistake must not decline.
func typedAnswer(typed, by string) (toolroom.Answer, bool) {
	word, rest, _ := strings.Cut(typed, " ")
	word, rest = strings.ToLower(word), strings.TrimSpace(rest)
	switch {
	case word == "n" || word == "no" || word == "":
		return toolroom.Answer{By: by, Comment: rest}, true
	case rest != "":
		return toolroom.Answer{}, false
	case word == "y" || word == "yes":
		return toolroom.Answer{By: by, Approve: true}, true
	case slices.Contains(approval.Scopes(), toolroom.ApprovalScope(word)):
		return toolroom.Answer{By: by, Approve: true, Scope: toolroom.ApprovalScope(word)}, true
	}
	return toolroom.Answer{}, false
}

// sayGrant prints the grant that was made by approving more than one call.
func (a *cli) sayGrant(ctx context.Context, r *app.App, done *toolroom.Approval) error {
	if done.State != toolroom.ApprovalApproved || done.Scope == toolroom.ScopeOnce {
		return nil
	}
	grants, err := r.Grants(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Approval == done.ID {
			a.screen.say("rule %s", g)
			a.screen.say("remove it: toolroom approve rules --remove %s", g.ID)
		}
	}
	return nil
}

// codeIn returns the code among a call's arguments if it has several lines, which JSON shows as
// one line.
func codeIn(arguments json.RawMessage) string {
	var named map[string]json.RawMessage
	var code string
	if json.Unmarshal(arguments, &named) != nil || json.Unmarshal(named["code"], &code) != nil || !strings.Contains(strings.TrimSpace(code), "\n") {
		return ""
	}
	return code
}

func (a *cli) showApproval(ctx context.Context, p *toolroom.Approval) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s wants to run %s\n  arguments  %s\n", p.Identity, p.Tool, p.Arguments)
	if p.Environment != "" {
		fmt.Fprintf(&b, "  in         the environment %s\n", p.Environment)
	}
	if code := codeIn(p.Arguments); code != "" {
		b.WriteString("  code\n")
		for line := range strings.Lines(code) {
			fmt.Fprintf(&b, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	for _, effect := range p.Effects {
		fmt.Fprintf(&b, "  effect     %s\n", effect)
	}
	for line := range strings.Lines(p.Diff) {
		fmt.Fprintf(&b, "    %s\n", strings.TrimRight(line, "\n"))
	}
	fmt.Fprintf(&b, "  rule       %s\n", p.Reason)
	if p.People > 1 {
		fmt.Fprintf(&b, "  people     %d of %d have approved\n", len(p.Votes), p.People)
	}
	fmt.Fprintf(&b, "  until      %s\n", p.Expires.Local().Format(time.TimeOnly))
	return a.screen.page(ctx, b.String())
}
