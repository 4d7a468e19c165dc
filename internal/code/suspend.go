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

var errTakenOver = toolroom.Errorf(toolroom.CodeConflict, "another process continues this run")

// Resumes reports whether the journal of a run exists: see [source.Sandboxed].
func (s *Service) Resumes(ctx context.Context, call string) bool {
	if s.o.Journals == nil {
		return false
	}
	_, _, err := s.o.Journals.Journal(ctx, call)
	return err == nil
}

// newHandler returns the call handler of a new run or of one that is resumed.
func (s *Service) newHandler(ctx context.Context, req *source.Request, r *Request, held *session.Run) (*handler, error) {
	h := &handler{Service: s, request: req, language: r.Language, session: held, function: r.function, journal: &session.Journal{}, waiting: map[int]string{}}
	h.resumable = s.o.Journals != nil && r.function == nil && !r.usesHostRuntime() && r.Profile != "dev"
	names := r.function == nil || r.function.Tools
	if names {
		s.discoverSources(ctx, r.Code)
		h.addPrograms(ctx, r.Code)
	}
	if req.MayHaveBegun && s.o.Journals != nil {
		head, entries, err := s.o.Journals.Journal(ctx, req.Call)
		if err == nil {
			return h, h.resume(r, head, entries)
		}
		if toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return nil, err
		}
	}
	h.head = session.JournalHead{Seed: make([]byte, 16), State: stateDigest(held)}
	rand.Read(h.head.Seed) // never fails
	if !names {
		return h, nil
	}
	var err error
	visible := s.o.Catalog.Shown(h.catalogView())
	if h.view, err = newView(r.Language, r.Code, r.inputs, visible); err != nil {
		return nil, err
	}
	h.view.unknown = h.findUnknown(r.Code, visible)
	h.makeProgramsCallable(r.Code)
	return h, nil
}

// resume prepares the handler to continue a stored run on the same engine.
func (h *handler) resume(r *Request, head *session.JournalHead, entries []session.JournalEntry) error {
	if stateDigest(h.session) != head.State {
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

func stateDigest(held *session.Run) string {
	if held == nil || len(held.State) == 0 {
		return ""
	}
	return digest(held.State)
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// startOn prepares the handler for a start of the program on an engine. It discards the
// output of an earlier start, but keeps the recorded answers.
func (h *handler) startOn(engine string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head.Engine = engine
	if h.suspension != nil {
		h.o.Runner.Log.Warn("a run continues on another engine", "call", h.request.Call, "engine", engine)
	}
	h.callsMade, h.callsExceeded = 0, false // the program repeats its requests
	h.stdout.reset()
	h.stderr.reset()
	h.journal.Rewind()
}

// replayOrServe returns the recorded answer of a request. If there is none, it serves the
// request with do and records the answer. It does not record a request of a program that has
// ended or is about to be suspended: later it would be unknown whether the request had an
// effect.
func (h *handler) replayOrServe(ctx context.Context, e session.JournalEntry, do func(place int, approval string) *toolroom.Result) (*toolroom.Result, error) {
	if err := h.beginRequest(ctx); err != nil {
		return nil, err
	}
	waits := false
	defer func() {
		if !waits {
			h.endRequest()
		}
	}()
	place, found, again, err := h.journal.Ask(ctx, e)
	if diverged := (*session.Divergence)(nil); errors.As(err, &diverged) {
		return nil, h.stop(h.divergenceError(diverged))
	}
	if err != nil || found.Result != nil {
		run.AddTaint(ctx, found.Labels...)
		return found.Result, err
	}
	if again && !h.mayRepeat(ctx, found) {
		return h.recordAnswer(ctx, place, 0, lostCall(found.Tool))
	}
	if found.NotBegun || again && found.Approval != "" {
		// It begins now, perhaps by a grant, or without an approval if the rules changed: the
		// unused approval of its last attempt does not prove that this one has not begun.
		if err := h.journal.Update(place, func(e *session.JournalEntry) { e.NotBegun, e.Approval = false, "" }); err != nil {
			return nil, err
		}
	}
	started := time.Now()
	result := do(place, found.Approval)
	if waits = h.isWaiting(place); waits {
		return nil, h.suspend(ctx)
	}
	result, err = h.recordAnswer(ctx, place, time.Since(started), result)
	if ended := h.checkToken(ctx); ended != nil {
		return nil, ended
	}
	return result, err
}

// checkToken ends the program if the token of its caller was revoked or has expired.
func (h *handler) checkToken(ctx context.Context) error {
	err := h.o.Runner.CheckToken(ctx, h.request.Identity)
	if toolroom.CodeOf(err) != toolroom.CodeUnauthenticated { // the calls report other errors
		return nil
	}
	return h.stop(err)
}

// recordAnswer records the answer of the request at place in the journal, unless the call
// was interrupted.
func (h *handler) recordAnswer(ctx context.Context, place int, d time.Duration, r *toolroom.Result) (*toolroom.Result, error) {
	cut := ctx.Err() != nil && r.Status == toolroom.StatusCancelled
	err := h.journal.Update(place, func(e *session.JournalEntry) {
		if cut {
			e.NotBegun = r.Effects == toolroom.EffectsNone
		} else {
			e.Labels = run.TaintOf(ctx)
			e.Result = &toolroom.Result{Value: r.Value, Error: r.Error, Warnings: r.Warnings}
			if len(r.Value) == 0 {
				e.Result.Content = r.Content
			}
		}
		if e.Listed != nil {
			shown := *e.Listed
			shown.Call, shown.Tool, shown.Status, shown.Duration = r.Call, cmp.Or(r.Tool, shown.Tool), r.Status, d
			shown.Warnings = r.Warnings
			if r.Error != nil {
				shown.Code = r.Error.Code
			}
			e.Listed = &shown
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
	if e.Listed == nil || e.NotBegun {
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

// beginRequest begins a request, unless the program has ended or is about to be suspended.
func (h *handler) beginRequest(ctx context.Context) error {
	h.mu.Lock()
	if !h.suspending && ctx.Err() == nil {
		h.inProgress++
		h.mu.Unlock()
		return nil
	}
	h.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (h *handler) endRequest() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inProgress--
	h.suspendWhenIdle()
}

// approvalHooks returns the callbacks that are called when the call at place in the journal
// begins and ends to wait for a person.
func (h *handler) approvalHooks(ctx context.Context, place int) run.ApprovalHooks {
	return run.ApprovalHooks{
		Began: func(a *toolroom.Approval) (time.Duration, error) {
			h.reportApproval(a)
			return h.beginWait(ctx, place, a.ID)
		},
		Ended: func(a *toolroom.Approval) {
			if a == nil { // it was not approved
				a, _ = h.o.Runner.Approvals.Get(context.WithoutCancel(ctx), h.approvalAt(place))
			}
			h.reportApproval(a)
			h.endWait(ctx, place)
		},
	}
}

// reportApproval emits an event with the approval that one of the run's calls waits for.
func (h *handler) reportApproval(a *toolroom.Approval) {
	if a != nil {
		h.request.Emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{
			ID: a.ID, State: string(a.State), Reason: a.Tool + ": " + a.Reason, Expires: a.Expires,
		}})
	}
}

// approvalAt returns the id of the approval that the call at place in the journal waits for.
func (h *handler) approvalAt(place int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting[place]
}

// beginWait notes that the call at place waits for an approval, and stores the run. It
// returns the longest time to wait.
func (h *handler) beginWait(ctx context.Context, place int, approval string) (time.Duration, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// The approval is noted before the run is stored: without it, it would be unknown
	// whether a stored call has begun.
	if err := h.journal.Update(place, func(e *session.JournalEntry) { e.Approval = approval }); err != nil {
		return 0, err
	}
	if err := h.storeRun(ctx); err != nil {
		return 0, err
	}
	if h.suspension == nil {
		return h.o.Runner.Limits().ApprovalWait, nil
	}
	h.waiting[place] = approval
	err := h.suspension.WaitFor(ctx, h.pendingApprovals())
	h.inProgress--
	h.suspendWhenIdle()
	return h.suspension.MaxWait(), err
}

// endWait notes that the call at place does not wait any more.
func (h *handler) endWait(ctx context.Context, place int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.waiting[place]; !ok {
		return
	}
	h.inProgress++
	delete(h.waiting, place)
	if ctx.Err() != nil {
		return // other calls may continue, and their observers see what it waits for
	}
	if err := h.suspension.WaitFor(ctx, h.pendingApprovals()); err != nil {
		h.o.Runner.Log.Warn("cannot update the job of a continued run", "call", h.request.Call, "error", err)
	}
}

func (h *handler) isWaiting(place int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, ok := h.waiting[place]
	return ok
}

// pendingApprovals returns the ids of the approvals that the run waits for. The caller holds
// the lock.
func (h *handler) pendingApprovals() []string { return slices.Sorted(maps.Values(h.waiting)) }

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
	err := h.journal.Persist(
		func(all []session.JournalEntry) error { return journals.SaveJournal(stored, call, &h.head, all) },
		func(place int, e session.JournalEntry) error {
			return journals.SaveJournalEntry(stored, call, place, e)
		},
	)
	if err != nil {
		return err
	}
	h.suspension, err = h.o.Runner.Suspendable(ctx, func() { _ = h.stop(errTakenOver) })
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

// suspendWhenIdle ends the program as suspended if that was requested and no call is in
// progress. The caller holds the lock.
func (h *handler) suspendWhenIdle() {
	if !h.suspending || h.inProgress > 0 || h.endErr != nil {
		return
	}
	h.suspension.Suspend()
	questions := h.pendingApprovals()
	e := toolroom.Errorf(toolroom.CodeApprovalRequired, "the program is waiting for approval by a person (%s); it continues after the answer", strings.Join(questions, ", "))
	e.Phase = toolroom.PhaseApproval
	e.Run, e.Approval = h.request.Call, questions[0]
	e.Details = map[string]any{"approvals": questions}
	h.endErr = e.WithHint("a person can answer with: toolroom approve %s. Do not run it again; read its result later with read_result and the handle %s", questions[0], h.request.Call).WithCLIHint("toolroom runs wait %s", h.request.Call)
	h.cancel(run.ErrSuspended)
}

// stop ends the program with an error that the program cannot catch.
func (h *handler) stop(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.endErr == nil {
		h.endErr = err
		h.cancel(err)
	}
	return h.endErr
}

// runError returns the handler's reason if it stopped the program, else the engine's error.
func (h *handler) runError(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.endErr != nil {
		return h.endErr
	}
	return err
}

// divergenceError returns the error of a resumed program that made another request than
// before.
func (h *handler) divergenceError(d *session.Divergence) error {
	e := toolroom.Errorf(toolroom.CodeConflict, "%w", d)
	e.Details = map[string]any{"diverged": true, "called": d.Asked, "expected": d.Expected}
	if h.request.MayHaveBegun {
		return e.WithHint("the calls before the wait have been made and are in the receipts; a program that waits for a person must be deterministic")
	}
	return e.WithHint("set the engine, so that the program is not restarted on another one")
}
