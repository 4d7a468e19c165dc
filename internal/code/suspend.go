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
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/session"
	"github.com/toolroom/toolroom/source"
)

// A suspended program outlives the process. Once one of its calls waits for a person, the
// run is stored: its initial state and all answers that it got. Another process, or this
// one, restarts the program on the same engine, replays the recorded answers, and continues
// when none is left.

var errTaken = toolroom.Errorf(toolroom.CodeConflict, "another process continues this run")

// Resumes reports whether the journal of a run exists: see [source.Sandboxed].
func (s *Service) Resumes(ctx context.Context, call string) bool {
	if s.o.Journals == nil {
		return false
	}
	_, _, err := s.o.Journals.Journal(ctx, call)
	return err == nil
}

// handler returns the call handler of a new or resumed run.
func (s *Service) handler(ctx context.Context, req *source.Request, r *Request, held *session.Run) (*handler, error) {
	h := &handler{Service: s, request: req, language: r.Language, session: held, function: r.function, journal: &session.Journal{}, waiting: map[int]string{}}
	h.resumable = s.o.Journals != nil && r.function == nil && !r.onHost() && r.Profile != "dev"
	names := r.function == nil || r.function.Tools
	if names {
		s.discover(ctx, r.Code)
		h.openPrograms(ctx, r.Code)
	}
	if req.Again && s.o.Journals != nil {
		head, entries, err := s.o.Journals.Journal(ctx, req.Call)
		if err == nil {
			return h, h.resume(r, head, entries)
		}
		if toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return nil, err
		}
	}
	h.head = session.JournalHead{Seed: make([]byte, 16), State: stateOf(held)}
	rand.Read(h.head.Seed) // never fails
	if !names {
		return h, nil
	}
	var err error
	visible := s.o.Catalog.Shown(h.sees())
	if h.view, err = viewFor(r.Language, r.Code, r.inputs, visible); err != nil {
		return nil, err
	}
	h.view.unknown = h.unknown(r.Code, visible)
	h.callPrograms(r.Code)
	return h, nil
}

// resume continues a run on the engine that it was on.
func (h *handler) resume(r *Request, head *session.JournalHead, entries []session.JournalEntry) error {
	if stateOf(h.session) != head.State {
		return toolroom.Errorf(toolroom.CodeConflict, "session %s changed while the program waited for a person", r.Session).
			WithHint("run it again; its earlier calls have been made")
	}
	h.head, h.journal = *head, session.ResumeJournal(entries)
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

// begin starts the program on an engine. It discards output, but not answers.
func (h *handler) begin(engine string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head.Engine = engine
	if h.suspension != nil {
		h.o.Runner.Log.Warn("a run continues on another engine", "call", h.request.Call, "engine", engine)
	}
	h.made, h.over = 0, false // the program repeats its requests
	h.stdout.reset()
	h.stderr.reset()
	h.journal.Rewind()
}

// once returns the recorded answer of a request, or else serves the request and records the
// answer. It does not record a request of a program that has ended or is about to be
// suspended: later it would be unknown whether the request had an effect.
func (h *handler) once(ctx context.Context, e session.JournalEntry, do func(place int, approval string) *toolroom.Result) (*toolroom.Result, error) {
	if err := h.enter(ctx); err != nil {
		return nil, err
	}
	waits := false
	defer func() {
		if !waits {
			h.leave()
		}
	}()
	place, found, again, err := h.journal.Ask(ctx, e)
	if diverged := (*session.Divergence)(nil); errors.As(err, &diverged) {
		return nil, h.stop(h.diverged(diverged))
	}
	if err != nil || found.Result != nil {
		run.AddTaint(ctx, found.Labels...)
		return found.Result, err
	}
	if again && !h.mayRepeat(ctx, found) {
		return h.took(ctx, place, 0, lostCall(found.Tool))
	}
	if found.Unbegun || again && found.Approval != "" {
		// It begins now, perhaps by a grant, or without an approval if the rules changed: the
		// unused approval of its last attempt does not prove that this one has not begun.
		if err := h.journal.Note(place, func(e *session.JournalEntry) { e.Unbegun, e.Approval = false, "" }); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	result := do(place, found.Approval)
	if waits = h.stillWaits(place); waits {
		return nil, h.suspend(ctx)
	}
	return h.took(ctx, place, time.Since(started), result)
}

// took records an answer, unless the call was interrupted.
func (h *handler) took(ctx context.Context, place int, d time.Duration, r *toolroom.Result) (*toolroom.Result, error) {
	cut := ctx.Err() != nil && r.Status == toolroom.StatusCancelled
	err := h.journal.Note(place, func(e *session.JournalEntry) {
		if cut {
			e.Unbegun = r.Effects == toolroom.EffectsNone
		} else {
			e.Labels = run.TaintOf(ctx)
			e.Result = &toolroom.Result{Value: r.Value, Error: r.Error, Warnings: r.Warnings}
			if len(r.Value) == 0 {
				e.Result.Content = r.Content
			}
		}
		if e.Shown != nil {
			shown := *e.Shown
			shown.Call, shown.Tool, shown.Status, shown.Duration = r.Call, cmp.Or(r.Tool, shown.Tool), r.Status, d
			shown.Warnings = r.Warnings
			if r.Error != nil {
				shown.Code = r.Error.Code
			}
			e.Shown = &shown
		}
	})
	for _, w := range r.Warnings {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Level: "warning", Message: w.Message}})
	}
	return r, err
}

// mayRepeat reports whether a call that was in progress when the program was interrupted
// can be made again: it had not started, or it is safe to repeat.
func (h *handler) mayRepeat(ctx context.Context, e session.JournalEntry) bool {
	if e.Shown == nil || e.Unbegun {
		return true
	}
	if e.Approval != "" {
		asked, err := h.o.Runner.Approvals.Get(ctx, e.Approval)
		return err == nil && asked.Used.IsZero() // an approval is used before the tool starts
	}
	entry, err := h.o.Runner.Lookup(&toolroom.Call{Tool: e.Tool, Identity: h.request.Identity, Environment: h.request.Environment})
	return err == nil && entry.Tool.RepeatGuarantee() != toolroom.GuaranteeNever
}

func lostCall(tool string) *toolroom.Result {
	e := toolroom.Errorf(toolroom.CodeConflict, "it is unknown whether %s had an effect: the process that called it ended meanwhile", tool)
	e.Phase, e.Tool = toolroom.PhaseExecute, tool
	return &toolroom.Result{Tool: tool, Status: toolroom.StatusError, Effects: toolroom.EffectsUnknown, Error: e.WithHint("check its effects before you call it again")}
}

// enter begins a request, unless the program has ended or is about to be suspended.
func (h *handler) enter(ctx context.Context) error {
	h.mu.Lock()
	if !h.suspending && ctx.Err() == nil {
		h.working++
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *handler) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.working--
	h.suspendWhenIdle()
}

// hooks returns the callbacks for the time that the call at an index of the journal waits
// for a person.
func (h *handler) hooks(ctx context.Context, place int) run.ApprovalHooks {
	return run.ApprovalHooks{
		Began: func(a *toolroom.Approval) (time.Duration, error) {
			h.tell(a)
			return h.waitBegan(ctx, place, a.ID)
		},
		Ended: func(a *toolroom.Approval) {
			if a == nil { // it was not approved
				a, _ = h.o.Runner.Approvals.Get(context.WithoutCancel(ctx), h.question(place))
			}
			h.tell(a)
			h.waitEnded(ctx, place)
		},
	}
}

// tell reports in the events of the run what one of its calls waits for.
func (h *handler) tell(a *toolroom.Approval) {
	if a != nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{
			ID: a.ID, State: string(a.State), Reason: a.Tool + ": " + a.Reason, Expires: a.Expires,
		}})
	}
}

func (h *handler) question(place int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[place]
}

func (h *handler) waitBegan(ctx context.Context, place int, approval string) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// It is noted before the run is stored: of a stored call without its approval it would be
	// unknown whether it has begun.
	if err := h.journal.Note(place, func(e *session.JournalEntry) { e.Approval = approval }); err != nil {
		return 0, err
	}
	if err := h.storeRun(ctx); err != nil {
		return 0, err
	}
	if h.suspension == nil {
		return h.o.Runner.Limits().ApprovalWait, nil
	}
	h.waiting[place] = approval
	err := h.suspension.WaitFor(ctx, h.questions())
	h.working--
	h.suspendWhenIdle()
	return h.suspension.MaxWait(), err
}

func (h *handler) waitEnded(ctx context.Context, place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[place]; !ok {
		return
	}
	h.working++
	delete(h.waiting, place)
	if ctx.Err() != nil {
		return // other calls may continue, and their observers see what it waits for
	}
	if err := h.suspension.WaitFor(ctx, h.questions()); err != nil {
		h.o.Runner.Log.Warn("cannot update the job of a continued run", "call", h.request.Call, "error", err)
	}
}

func (h *handler) stillWaits(place int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.waiting[place]
	return ok
}

// questions returns the approvals that the run waits for.
func (h *handler) questions() []string { return slices.Sorted(maps.Values(h.waiting)) }

// storeRun stores the run, so that another process can take it over.
func (h *handler) storeRun(ctx context.Context) error {
	if h.suspension != nil || !h.resumable {
		return nil
	}
	stored := context.WithoutCancel(ctx)
	h.head.Tools, h.head.Withheld = h.view.tools, map[string]string{}
	for _, m := range h.view.withheld {
		h.head.Withheld[m.Key], _ = m.Value.(string)
	}
	call, journals := h.request.Call, h.o.Journals
	if !h.o.Runner.CanSuspend(ctx) {
		h.resumable = false
		return nil
	}
	err := h.journal.Keep(
		func(all []session.JournalEntry) error { return journals.KeepJournal(stored, call, &h.head, all) },
		func(place int, e session.JournalEntry) error { return journals.KeepEntry(stored, call, place, e) },
	)
	if err != nil {
		return err
	}
	h.suspension, err = h.o.Runner.Suspendable(ctx, func() { _ = h.stop(errTaken) })
	return err
}

// suspend suspends the program until one of the approvals is decided. It does so only when no
// call is in progress.
func (h *handler) suspend(ctx context.Context) error {
	h.mu.Lock()
	h.suspending = true
	h.suspendWhenIdle()
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *handler) suspendWhenIdle() {
	if !h.suspending || h.working > 0 || h.ended != nil {
		return
	}
	h.suspension.Suspend()
	questions := h.questions()
	e := toolroom.Errorf(toolroom.CodeApprovalRequired, "the program is waiting for approval by a person (%s); it continues after the answer", strings.Join(questions, ", "))
	e.Phase = toolroom.PhaseApproval
	e.Run, e.Approval = h.request.Call, questions[0]
	e.Details = map[string]any{"approvals": questions}
	h.ended = e.WithHint("a person can answer with: toolroom approve %s. Do not run it again; read its result later with read_result and the handle %s", questions[0], h.request.Call).WithCLIHint("toolroom runs wait %s", h.request.Call)
	h.end(run.ErrSuspended)
}

// stop ends the program with an error that the program cannot catch.
func (h *handler) stop(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended == nil {
		h.ended = err
		h.end(err)
	}
	return h.ended
}

// whyEnded returns why a run ended: the engine's error, or the reason that the handler
// stopped it.
func (h *handler) whyEnded(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return h.ended
	}
	return err
}

// diverged returns the error of a program that diverged.
func (h *handler) diverged(d *session.Divergence) error {
	e := toolroom.Errorf(toolroom.CodeConflict, "%w", d)
	e.Details = map[string]any{"diverged": true, "called": d.Asked, "expected": d.Expected}
	if h.request.Again {
		return e.WithHint("the calls before the wait have been made and are in the receipts; a program that waits for a person must be deterministic")
	}
	return e.WithHint("set the engine, so that the program is not restarted on another one")
}
