package run

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/secret"
	"github.com/toolroom/toolroom/source"
)

func TestADenialSaysWhatItIsAbout(t *testing.T) {
	t.Parallel()
	effect := toolroom.Effect{Kind: toolroom.EffectFile, Mode: "read", Target: "/x"}
	for _, c := range []struct {
		leaks     bool
		because   toolroom.Effect
		sensitive []string
		message   string
	}{
		{message: "anonymous may not call a:b: rule"},
		{leaks: true, message: "anonymous may not call a:b: rule"},
		{because: effect, message: "anonymous may not call a:b: rule, because it " + effect.String()},
		{because: effect, sensitive: []string{"/p"}, message: "anonymous may not call a:b: rule, because of what the call would do"},
	} {
		call := &call{runner: New(Options{Catalog: catalog.New(catalog.Options{})}), tool: "a:b"}
		d := &decidedCall{
			resolvedCall: &resolvedCall{call: call, entry: &catalog.Entry{Tool: toolroom.Tool{Sensitive: c.sensitive}}},
			decision:     policy.Decision{Rule: "rule", Because: c.because, Hint: "hint", CLIHint: "cli"}, taint: []string{"private"}, leaks: c.leaks,
		}
		e := &toolroom.Error{}
		if !errors.As(d.denialError(), &e) {
			t.Fatal("it is no error of ours")
		}
		_, reach := e.Details["reach"]
		if e.Code != toolroom.CodeDenied || e.Details["rule"] != "rule" || e.Hint != "hint" || e.CLIHint != "cli" || reach != c.leaks || c.leaks && !reflect.DeepEqual(e.Details["reach"], d.taint) {
			t.Errorf("%+v: %+v", c, e)
		}
		if want := call.request.Identity.String() + c.message[len("anonymous"):]; e.Message != want {
			t.Errorf("got %q, want %q", e.Message, want)
		}
	}
}

func TestAStepIsTriedAgainOnlyIfThatMayHelp(t *testing.T) {
	t.Parallel()
	failed := func(status toolroom.Status, code toolroom.Code) *toolroom.Result {
		return &toolroom.Result{Status: status, Error: toolroom.Errorf(code, "no")}
	}
	for name, c := range map[string]struct {
		result    *toolroom.Result
		retries   int
		cancelled bool
		runs      int
		took      time.Duration
	}{
		"it works":      {result: &toolroom.Result{Status: toolroom.StatusOK}, retries: 2, runs: 1},
		"it fails":      {result: failed(toolroom.StatusError, toolroom.CodeExecutionFailed), retries: 2, runs: 3, took: 3 * retryPause},
		"no retries":    {result: failed(toolroom.StatusError, toolroom.CodeExecutionFailed), runs: 1},
		"it is denied":  {result: failed(toolroom.StatusDenied, toolroom.CodeDenied), retries: 2, runs: 1},
		"no calls left": {result: failed(toolroom.StatusError, toolroom.CodeBudgetExceeded), retries: 2, runs: 1},
		"cancelled":     {result: failed(toolroom.StatusError, toolroom.CodeExecutionFailed), retries: 2, cancelled: true, runs: 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.cancelled {
				cancel()
			}
			began, runs := time.Now(), 0
			got := runWithRetries(ctx, toolroom.Call{}, c.retries, func(context.Context, toolroom.Call) *toolroom.Result {
				runs++
				return c.result
			})
			if got != c.result || runs != c.runs || time.Since(began) != c.took {
				t.Errorf("%s: it ran %d times in %s", name, runs, time.Since(began))
			}
		})
	}
}

func TestRedactionLeavesTheRecordOfTheProgramAlone(t *testing.T) {
	t.Parallel()
	secrets := &secret.Redactor{}
	secrets.Learn(map[secret.Ref]string{{Scope: "s", Name: "v"}: "hunter2-hunter2"})
	x := &toolroom.Execution{
		Stdout: "hunter2-hunter2", Calls: []toolroom.ExecutionCall{{Arguments: json.RawMessage(`{"a":"hunter2-hunter2"}`)}},
		Refused: []toolroom.RefusedConnection{{Address: "hunter2-hunter2:1", Reason: "hunter2-hunter2"}},
	}
	redacted := redactedExecution(secrets, x)
	for name, pair := range map[string][2]string{
		"stdout": {x.Stdout, redacted.Stdout}, "arguments": {string(x.Calls[0].Arguments), string(redacted.Calls[0].Arguments)},
		"address": {x.Refused[0].Address, redacted.Refused[0].Address}, "reason": {x.Refused[0].Reason, redacted.Refused[0].Reason},
	} {
		if pair[0] == pair[1] {
			t.Errorf("%s: %q and %q", name, pair[0], pair[1])
		}
	}
	if redactedExecution(nil, x) != x || redactedExecution(secrets, nil) != nil {
		t.Error("without secrets or a program there is nothing to do")
	}
}

func TestAResultIsRedactedOnce(t *testing.T) {
	t.Parallel()
	secrets := &secret.Redactor{}
	secrets.Learn(map[secret.Ref]string{{Scope: "s", Name: "v"}: "hunter2-hunter2"})
	d := &draft{Result: toolroom.Result{Value: json.RawMessage(`"hunter2-hunter2"`)}}
	d.redact(nil)
	if d.redacted || string(d.Value) != `"hunter2-hunter2"` {
		t.Errorf("without secrets: %s", d.Value)
	}
	d.redact(secrets)
	redacted := string(d.Value)
	if !d.redacted || redacted == `"hunter2-hunter2"` {
		t.Errorf("got %s", redacted)
	}
	d.Value = json.RawMessage(`"hunter2-hunter2"`)
	if d.redact(secrets); string(d.Value) == redacted {
		t.Error("it is redacted again")
	}
}

func TestDataOfALineThatIsNoJSONIsNotRecorded(t *testing.T) {
	t.Parallel()
	var l logs
	for _, data := range []string{``, `{"a":1}`, `{"a":`} {
		l.add(time.Unix(0, 0), &toolroom.Log{Message: "m", Data: json.RawMessage(data)})
	}
	lines, _ := l.forReceipt(nil, time.Unix(0, 0), nil)
	if len(lines) != 3 || len(lines[0].Data) != 0 || string(lines[1].Data) != `{"a":1}` || lines[2].Data != nil {
		t.Errorf("got %q", lines)
	}
}

// extending is a job store that counts the leases that are extended.
type extending struct {
	JobStore
	extended []string
	err      error
}

func (e *extending) ExtendJob(_ context.Context, id string, _ int64, _ time.Time, _ bool) error {
	e.extended = append(e.extended, id)
	return e.err
}

func TestLeasesThatHaveEndedHereAreExtended(t *testing.T) {
	t.Parallel()
	locked := errors.New("locked")
	for _, c := range []struct{ err, want error }{{nil, nil}, {toolroom.Errorf(toolroom.CodeConflict, "stale"), nil}, {toolroom.Errorf(toolroom.CodeNotFound, "gone"), nil}, {locked, locked}} {
		store, now := &extending{err: c.err}, time.Unix(1_700_000_000, 0)
		r := New(Options{Catalog: catalog.New(catalog.Options{}), Jobs: store, Now: func() time.Time { return now }})
		w := NewWorker(r, WorkerOptions{})
		for name, ends := range map[string]time.Duration{"now": 0, "later": 1} {
			s := &Suspension{runner: r, lease: time.Second, job: &Job{Job: toolroom.Job{ID: name}}}
			s.leaseEnds.Store(now.Add(ends).UnixNano())
			defer w.register(name, s, func() {})()
		}
		if err := w.extendExpiredLeases(t.Context()); !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%v: %v", c.err, err)
		}
		if !slices.Equal(store.extended, []string{"now"}) {
			t.Errorf("%v: extended %v", c.err, store.extended)
		}
	}
}

// unreadable is a job store that can extend and not read.
type unreadable struct{ extending }

func (*unreadable) Job(context.Context, string) (*Job, error) { return nil, errors.New("locked") }

func TestAJobThatCannotBeReadGoesOn(t *testing.T) {
	t.Parallel()
	r := New(Options{Catalog: catalog.New(catalog.Options{}), Jobs: &unreadable{}})
	s := &Suspension{runner: r, lease: time.Second, job: &Job{}}
	if s.renewOnce(t.Context(), func(err error) { t.Errorf("it is ended: %v", err) }) {
		t.Error("it is ended")
	}
}

func TestACallLeavesIfItsCallerAsksForItsResultLater(t *testing.T) {
	t.Parallel()
	r := New(Options{Catalog: catalog.New(catalog.Options{})})
	later, end := context.WithCancelCause(t.Context())
	end(ErrDetached)
	if (&call{runner: r, ctx: t.Context()}).continuesLater() || !(&call{runner: r, ctx: later}).continuesLater() {
		t.Error("a call leaves without its caller, or stays")
	}
}

func TestAnAnswerSentInAdvanceCountsOnceAndOnlyIfItFits(t *testing.T) {
	t.Parallel()
	fits := true
	s := &Suspension{open: map[string]*openQuestion{}, asked: make(chan struct{}, 1), client: Client{
		Offered: map[string]json.RawMessage{"a": json.RawMessage(`1`), "b": json.RawMessage(`2`)},
		Fits:    func(source.Question, json.RawMessage) bool { return fits },
	}}
	ask := func(approval string, keys ...string) (opened, answered int, err error) {
		questions := map[string]source.Question{}
		for _, key := range keys {
			questions[key] = source.Question{}
		}
		o, a, err := s.addQuestions(questions, approval)
		for key := range o {
			if o[key] != s.open[key] || o[key].approval != approval {
				t.Errorf("%s is not open", key)
			}
		}
		s.closeQuestions(keys...)
		return len(o), len(a), err
	}
	signalled := func() bool {
		select {
		case <-s.asked:
			return true
		default:
			return false
		}
	}
	for i, c := range []struct {
		approval         string
		fits             bool
		keys             []string
		opened, answered int
	}{
		{"", true, []string{"a"}, 0, 1},   // it is used up
		{"", true, []string{"a"}, 1, 0},   // so it is asked
		{"", false, []string{"b"}, 1, 0},  // it does not fit
		{"id", true, []string{"b"}, 1, 0}, // nothing approves in advance
		{"", true, []string{"b", "c"}, 1, 1},
	} {
		fits = c.fits
		if opened, answered, err := ask(c.approval, c.keys...); opened != c.opened || answered != c.answered || err != nil || signalled() != (c.opened > 0) {
			t.Errorf("%d: %d opened, %d answered, %v", i, opened, answered, err)
		}
	}
	s.open["d"] = &openQuestion{}
	if _, _, err := s.addQuestions(map[string]source.Question{"d": {}}, ""); toolroom.CodeOf(err) != toolroom.CodeConflict {
		t.Errorf("a question is asked twice: %v", err)
	}
}

// resuming is a source that resumes one call.
type resuming struct {
	source.Source
	resumes string
}

func (r resuming) Isolation(context.Context, *source.Request) string { return "" }
func (r resuming) Resumes(_ context.Context, call string) bool       { return call == r.resumes }

func TestOnlyAnOutermostCallIsResumedByItsSource(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source source.Source
		around *scope
		want   bool
	}{
		{resuming{resumes: "id"}, nil, true},
		{resuming{resumes: "id"}, &scope{}, false},
		{resuming{resumes: "other"}, nil, false},
		{nil, nil, false},
	} {
		one := &resolvedCall{call: &call{ctx: t.Context(), parent: c.around, request: toolroom.Call{ID: "id"}}, entry: &catalog.Entry{Source: c.source}}
		if got := one.canResume(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestACallWithinACallOfAnotherRunnerIsAnOutermostOne(t *testing.T) {
	t.Parallel()
	r, other := New(Options{Catalog: catalog.New(catalog.Options{})}), New(Options{Catalog: catalog.New(catalog.Options{})})
	sent := 0
	around := &scope{runner: other, depth: 4, session: "theirs", budget: &toolroom.Budget{}, sink: func(toolroom.Event) { sent++ }}
	budget := &toolroom.Budget{}
	c := r.begin(context.WithValue(t.Context(), scopeKey{}, around), toolroom.Call{Session: "mine", Budget: budget})
	if c.parent != nil || c.scope.depth != 0 || c.scope.budget != budget || c.request.Session != "mine" || c.stream.sink == nil {
		t.Errorf("got %+v", c.scope)
	}
	around.runner, around.environment = r, "staging"
	if c = r.begin(context.WithValue(t.Context(), scopeKey{}, around), toolroom.Call{Session: "mine"}); c.parent != around || c.scope.depth != 5 || c.request.Session != "theirs" || c.request.Environment != "staging" {
		t.Errorf("got %+v", c.scope)
	}
}

func TestACallThatAnEarlierProcessDidNotFinishIsNotRetryable(t *testing.T) {
	t.Parallel()
	r := New(Options{Catalog: catalog.New(catalog.Options{})})
	o := newOutcome(r.begin(t.Context(), toolroom.Call{Tool: "a:b"}), &progress{})
	known := &toolroom.Error{Code: toolroom.CodeUpstreamUnavailable, Message: "gone", Retryable: true}
	if e := o.withUnknownEffects(known); e.Retryable || e.Effects != toolroom.EffectsUnknown || !strings.Contains(e.Message, "unknown") || !known.Retryable {
		t.Errorf("got %+v of %+v", e, known)
	}
}

func TestRecordedArgumentsAreACopy(t *testing.T) {
	t.Parallel()
	given := json.RawMessage(`{"a":1}`)
	c := &call{runner: New(Options{Catalog: catalog.New(catalog.Options{})}), request: toolroom.Call{Arguments: given}}
	recorded := c.recordedArguments(&resolvedCall{call: c, entry: &catalog.Entry{}}, false)
	given[5] = '2' // the caller may go on with its own
	if string(recorded) != `{"a":1}` {
		t.Errorf("got %s", recorded)
	}
}

func TestAJobThatBeginsToWaitWakesItsWorkerOnce(t *testing.T) {
	t.Parallel()
	w := NewWorker(New(Options{Catalog: catalog.New(catalog.Options{})}), WorkerOptions{})
	s := &Suspension{worker: w, slots: newTakenSlot()}
	woken := func() bool {
		select {
		case <-w.wake:
			return true
		default:
			return false
		}
	}
	s.releaseSlot()
	if len(s.slots) != 0 || !woken() {
		t.Error("it keeps its slot, or nobody is told")
	}
	s.releaseSlot() // a second question
	if woken() {
		t.Error("the worker is woken for a slot that was free")
	}
}

func TestAClosedSubscriptionIsForgotten(t *testing.T) {
	t.Parallel()
	var b Bus
	s, other := b.Subscribe(nil), b.Subscribe(nil)
	s.Close()
	s.Close()
	if _, there := b.subs[other]; len(b.subs) != 1 || !there || b.count.Load() != 1 {
		t.Errorf("%d are known, and %d counted", len(b.subs), b.count.Load())
	}
}

func TestACallThatIsResumedWasBegunBefore(t *testing.T) {
	t.Parallel()
	c := &call{runner: New(Options{Catalog: catalog.New(catalog.Options{})}), ctx: t.Context()}
	if newOutcome(c, &progress{}).mayHaveRunEarlier() {
		t.Error("a call that begins was interrupted")
	}
	c.resume = json.RawMessage(`{}`)
	if !newOutcome(c, &progress{}).mayHaveRunEarlier() {
		t.Error("a call that is resumed was not")
	}
}
