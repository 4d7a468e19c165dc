package code

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/code/journal"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// A program that waits for a person outlives the process. Once one of its calls
// waits, the run is kept: what the program began with, and all that it has been
// answered. Another process, or this one, runs the program anew on the same
// engine, gives it the recorded answers, and goes on where no answer is left.

var errTaken = toolroom.Errorf(toolroom.CodeConflict, "another process goes on with this run")

// Resumes reports whether the journal of a run is there: see [source.Resumer].
func (s *Service) Resumes(ctx context.Context, call string) bool {
	if s.o.Journals == nil {
		return false
	}
	_, _, err := s.o.Journals.Journal(ctx, call)
	return err == nil
}

// host makes the host of a run: one that begins, or goes on.
func (s *Service) host(ctx context.Context, req *source.Request, r *Request, held *session.Run) (*host, error) {
	h := &host{Service: s, request: req, language: r.Language, session: held, journal: &journal.Journal{}, waiting: map[int]string{}}
	h.keepable = s.o.Journals != nil && r.Engine != hostRuntime && r.Runtime != hostRuntime && r.Profile != "dev"
	if req.Again && s.o.Journals != nil {
		head, entries, err := s.o.Journals.Journal(ctx, req.Call)
		if err == nil {
			return h, h.resume(r, head, entries)
		}
		if toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return nil, err
		}
	}
	h.head = journal.Head{Seed: make([]byte, 16), State: stateOf(held)}
	rand.Read(h.head.Seed) // never fails
	s.discover(ctx, r.Code)
	var err error
	visible := s.o.Catalog.All(s.o.Runner.Visible(req.Identity))
	if h.view, err = viewFor(r.Language, r.Code, r.inputs, visible); err != nil {
		return nil, err
	}
	h.view.unknown = h.unknown(r.Code, visible)
	return h, nil
}

// resume goes on with a run on the engine that it was on.
func (h *host) resume(r *Request, head *journal.Head, entries []journal.Entry) error {
	if stateOf(h.session) != head.State {
		return toolroom.Errorf(toolroom.CodeConflict, "the program waited for a person, and the session %s has changed meanwhile", r.Session).
			WithHint("run it again; what it had called until then was done")
	}
	h.head, h.journal = *head, journal.Resume(entries)
	if r.Runtime == "" {
		r.Engine = head.Engine
	}
	h.view.tools = head.Tools
	for _, name := range slices.Sorted(maps.Keys(head.Withheld)) {
		h.view.withheld = append(h.view.withheld, bridge.Member{Key: name, Value: head.Withheld[name]})
	}
	return nil
}

func stateOf(held *session.Run) string {
	if held == nil || len(held.State) == 0 {
		return ""
	}
	return digest(held.State)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// begin begins on an engine: output is forgotten, answers are not.
func (h *host) begin(engine string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head.Engine = engine
	if h.kept != nil {
		h.o.Runner.Log.Warn("a run goes on on another engine", "call", h.request.Call, "engine", engine)
	}
	h.stdout.reset()
	h.stderr.reset()
	h.journal.Rewind()
}

// once gives what a program got when it asked for the same the first time, or
// does it and takes the answer down.
func (h *host) once(ctx context.Context, e journal.Entry, do func(place int, approval string) *toolroom.Result) (*toolroom.Result, error) {
	place, found, again, err := h.journal.Ask(ctx, e)
	if diverged := (*journal.Divergence)(nil); errors.As(err, &diverged) {
		return nil, h.stop(h.diverged(diverged))
	}
	if err != nil || found.Result != nil {
		return found.Result, err
	}
	if again && !h.mayRepeat(ctx, found) {
		return h.took(ctx, place, 0, lostCall(found.Tool))
	}
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	started := time.Now()
	result := do(place, found.Approval)
	if h.stillWaits(place) {
		return nil, h.park(ctx)
	}
	defer h.leave()
	return h.took(ctx, place, time.Since(started), result)
}

// took takes an answer down, unless the call was cut off.
func (h *host) took(ctx context.Context, place int, d time.Duration, r *toolroom.Result) (*toolroom.Result, error) {
	cut := ctx.Err() != nil && r.Status == toolroom.StatusCancelled
	err := h.journal.Note(place, func(e *journal.Entry) {
		if cut {
			e.Unbegun = r.Effects == toolroom.EffectsNone
		} else {
			e.Result = &toolroom.Result{Value: r.Value, Error: r.Error}
			if len(r.Value) == 0 {
				e.Result.Content = r.Content
			}
		}
		if e.Shown != nil {
			shown := *e.Shown
			shown.Call, shown.Tool, shown.Status, shown.Duration = r.Call, cmp.Or(r.Tool, shown.Tool), r.Status, d
			if r.Error != nil {
				shown.Code = r.Error.Code
			}
			e.Shown = &shown
		}
	})
	return r, err
}

// mayRepeat reports whether a call that was under way when the program was cut
// off can be made again: it had not begun, or does no harm twice.
func (h *host) mayRepeat(ctx context.Context, e journal.Entry) bool {
	if e.Shown == nil || e.Unbegun {
		return true
	}
	if e.Approval != "" {
		asked, err := h.o.Runner.Desk.Get(ctx, e.Approval)
		return err == nil && asked.Used.IsZero() // it is used before the tool begins
	}
	entry, err := h.o.Catalog.Resolve(e.Tool, h.o.Runner.Visible(h.request.Identity))
	return err == nil && entry.Tool.RepeatGuarantee() != toolroom.GuaranteeNever
}

func lostCall(tool string) *toolroom.Result {
	e := toolroom.Errorf(toolroom.CodeConflict, "whether %s acted is not known: the process that called it ended meanwhile", tool)
	e.Phase, e.Tool = toolroom.PhaseExecute, tool
	return &toolroom.Result{Tool: tool, Status: toolroom.StatusError, Effects: toolroom.EffectsUnknown, Error: e.WithHint("look what it did before you call it again")}
}

// enter begins a call, unless the run is about to be parked.
func (h *host) enter(ctx context.Context) error {
	h.mu.Lock()
	if !h.parking {
		h.working++
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *host) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.working--
	h.parkWhenIdle()
}

// waits says how the call in a place of the journal waits for a person.
func (h *host) waits(ctx context.Context, place int) run.Waiting {
	return run.Waiting{
		Began: func(a *approval.Approval) (time.Duration, error) {
			h.tell(a)
			return h.waitBegan(ctx, place, a.ID)
		},
		Ended: func(a *approval.Approval) {
			if a == nil { // it was not approved
				a, _ = h.o.Runner.Desk.Get(context.WithoutCancel(ctx), h.question(place))
			}
			h.tell(a)
			h.waitEnded(ctx, place)
		},
	}
}

// tell says in the events of the run what one of its calls waits for.
func (h *host) tell(a *approval.Approval) {
	if a != nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{
			ID: a.ID, State: string(a.State), Reason: a.Tool + ": " + a.Reason, Expires: a.Expires,
		}})
	}
}

func (h *host) question(place int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[place]
}

func (h *host) waitBegan(ctx context.Context, place int, approval string) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.keepRun(ctx); err != nil {
		return 0, err
	}
	if h.kept == nil {
		return h.o.Runner.Limits.ApprovalWait, nil
	}
	if err := h.journal.Note(place, func(e *journal.Entry) { e.Approval = approval }); err != nil {
		return 0, err
	}
	h.waiting[place] = approval
	err := h.kept.Wait(ctx, h.questions())
	h.working--
	h.parkWhenIdle()
	return h.kept.Hold(), err
}

func (h *host) waitEnded(ctx context.Context, place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[place]; !ok {
		return
	}
	h.working++
	delete(h.waiting, place)
	if ctx.Err() != nil {
		return // others may go on, who see what it waits for
	}
	if err := h.kept.Wait(ctx, h.questions()); err != nil {
		h.o.Runner.Log.Warn("a run goes on, and its job does not say so", "call", h.request.Call, "error", err)
	}
}

func (h *host) stillWaits(place int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.waiting[place]
	return ok
}

// questions are the approvals that the run waits for.
func (h *host) questions() []string { return slices.Sorted(maps.Values(h.waiting)) }

// keepRun makes the run one that can be taken over.
func (h *host) keepRun(ctx context.Context) error {
	if h.kept != nil || !h.keepable {
		return nil
	}
	stored := context.WithoutCancel(ctx)
	h.head.Tools, h.head.Withheld = h.view.tools, map[string]string{}
	for _, m := range h.view.withheld {
		h.head.Withheld[m.Key], _ = m.Value.(string)
	}
	call, journals := h.request.Call, h.o.Journals
	if !h.o.Runner.CanKeep(ctx) {
		h.keepable = false
		return nil
	}
	err := h.journal.Keep(
		func(all []journal.Entry) error { return journals.KeepJournal(stored, call, &h.head, all) },
		func(place int, e journal.Entry) error { return journals.KeepEntry(stored, call, place, e) },
	)
	if err != nil {
		return err
	}
	h.kept, err = h.o.Runner.Keep(ctx, func() { _ = h.stop(errTaken) })
	return err
}

// park gives the program up until one of the approvals is decided. It is given
// up only when no call is under way.
func (h *host) park(ctx context.Context) error {
	h.mu.Lock()
	h.parking = true
	h.parkWhenIdle()
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *host) parkWhenIdle() {
	if !h.parking || h.working > 0 || h.ended != nil {
		return
	}
	h.kept.Park()
	questions := h.questions()
	e := toolroom.Errorf(toolroom.CodeApprovalRequired, "the program is waiting for approval by a person (%s); it goes on after the answer", strings.Join(questions, ", "))
	e.Phase = toolroom.PhaseApproval
	e.Details = map[string]any{"run": h.request.Call, "approval": questions[0], "approvals": questions}
	h.ended = e.WithHint("a person answers with: toolroom approve %s. Do not run it again; read its result with: toolroom runs wait %s, or with read_result and this id as its handle", questions[0], h.request.Call)
	h.end(run.ErrParked)
}

// stop ends the program with an error that it cannot catch.
func (h *host) stop(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = err
		h.end(err)
	}
	return h.ended
}

// whyEnded is why a run ended: as its engine has it, or because it was stopped
// from here.
func (h *host) whyEnded(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	return err
}

// diverged is the error of a program that took another way.
func (h *host) diverged(d *journal.Divergence) error {
	e := toolroom.Errorf(toolroom.CodeConflict, "%w", d)
	e.Details = map[string]any{"diverged": true, "called": d.Asked, "expected": d.Expected}
	if h.request.Again {
		return e.WithHint("what it had called until it waited was done, and is in the receipts; a program that waits for a person must not depend on what differs from run to run")
	}
	return e.WithHint("name the engine, so that the program is not begun twice")
}
