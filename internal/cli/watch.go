package cli

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/room"
)

// watcher shows a person what happens in a call, and asks for approval where
// the call needs it and somebody is there. Asking does not hold up the call's
// events: the answer may as well come from elsewhere.
type watcher struct {
	app  *app
	room *room.Room
	ctx  context.Context

	stop   context.CancelFunc
	asking sync.WaitGroup
}

func newWatcher(ctx context.Context, a *app, r *room.Room) *watcher {
	return &watcher{app: a, room: r, ctx: ctx, stop: func() {}}
}

// watch shows one event.
func (w *watcher) watch(e toolroom.Event) {
	screen := w.app.screen
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
	switch approval.State(e.Approval.State) {
	case approval.Pending:
	default:
		w.app.screen.say("%s: %s", e.Approval.ID, e.Approval.State)
		return
	}
	if !w.app.screen.interactive() {
		w.app.screen.fail(e.Tool+" is waiting for approval by a person: "+e.Approval.Reason,
			"toolroom approve "+e.Approval.ID)
		return
	}
	ctx, stop := context.WithCancel(w.ctx)
	w.stop = stop
	w.asking.Go(func() {
		// A failure here is no failure of the call, which goes on waiting.
		if err := w.app.decide(ctx, w.room, e.Approval.ID); err != nil && ctx.Err() == nil {
			w.app.screen.fail(err.Error(), toolroom.AsError(err).Hint)
		}
	})
}

// close takes a question back that still stands, and waits for that.
func (w *watcher) close() {
	w.stop()
	w.asking.Wait()
	w.app.screen.progress("")
}

// decide shows an approval to the person at the terminal and records the
// answer.
func (a *app) decide(ctx context.Context, r *room.Room, id string) error {
	question, err := r.Approval(ctx, id)
	if err != nil {
		return err
	}
	a.showApproval(question)
	yes, err := a.screen.ask(ctx, "Run it?")
	if err != nil {
		return err
	}
	_, err = r.Answer(ctx, id, approval.Answer{Approve: yes, By: a.User})
	return err
}

func (a *app) showApproval(p *approval.Approval) {
	a.screen.say("%s wants to run %s", p.Identity, p.Tool)
	a.screen.say("  arguments  %s", p.Arguments)
	for _, effect := range p.Effects {
		a.screen.say("  effect     %s", effect)
	}
	for line := range strings.Lines(p.Diff) {
		a.screen.say("    %s", strings.TrimRight(line, "\n"))
	}
	a.screen.say("  rule       %s", p.Reason)
	if p.People > 1 {
		a.screen.say("  people     %d of %d have approved", len(p.Votes), p.People)
	}
	a.screen.say("  until      %s", p.Expires.Local().Format(time.TimeOnly))
}
