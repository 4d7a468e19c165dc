package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
	"github.com/toolroom/toolroom/source"
)

func TestArgumentsThatDoNotFitAreExplained(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Limits.InputBytes = 1000 })
	typed := tool("typed:it")
	typed.InputSchema = json.RawMessage(`{"type":"object","properties":{"count":{"type":"integer"}},"required":["count"],"additionalProperties":false}`)
	b.add(typed, value(`1`))
	strict := tool("strict:it")
	strict.InputSchema = json.RawMessage(`{"type":"object","properties":{"when":{"not":{}}},"required":["when"]}`)
	b.add(strict, value(`1`))
	b.add(tool("free:it"), value(`1`))
	for _, tt := range []struct{ tool, arguments, says, hint string }{
		{"typed:it", `{"count":1}`, "", ""},
		{"typed:it", ` {"count":1}`, "", ""},
		{"typed:it", `{"count":"1"}`, "do not fit", `this would be accepted: {"count":1}`},
		{"typed:it", ``, "do not fit", `this would be accepted: {"count":0}`},
		{"strict:it", `{"when":{}}`, "do not fit", "see its input schema"},
		{"typed:it", `{"count":1,"count":2}`, "are not usable", `{"count":`},
		{"typed:it", `{"count":`, "are not usable", "send one JSON object"},
		{"typed:it", `{"count":1,"x":"` + strings.Repeat("x", 1000) + `"}`, "are not usable", ""},
		{"free:it", `{"x":"` + strings.Repeat("x", 1000) + `"}`, "are not usable", ""},
		{"free:it", `{"x":"` + strings.Repeat("x", 1000-8) + `"}`, "", ""},
		{"free:it", `null`, "must be a JSON object, not null", "for example"},
		{"free:it", `"x"`, "not a string", ""},
		{"free:it", `true`, "not a boolean", ""},
		{"free:it", `[1]`, "not an array", ""},
		{"free:it", `12`, "not a number (12)", ""},
		{"free:it", ` `, "are not usable", ""},
		{"free:it", ``, "", ""},
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: tt.tool, Arguments: json.RawMessage(tt.arguments)})
		if tt.says == "" {
			if !r.OK() {
				t.Errorf("%s with %.40s: %v", tt.tool, tt.arguments, r.Error)
			}
			continue
		}
		if toolroom.CodeOf(r.Err()) != toolroom.CodeInvalidArguments || !strings.Contains(r.Error.Message, tt.says) || !strings.Contains(r.Error.Hint, tt.hint) || r.Effects != toolroom.EffectsNone {
			t.Errorf("%s with %.40s: %v, hint %q", tt.tool, tt.arguments, r.Error, r.Error.Hint)
		}
	}
	r := b.Run(t.Context(), toolroom.Call{Tool: "typed:it", Arguments: json.RawMessage(`{"count":"1"}`)})
	if r.Error.Details["problems"] == nil || fmt.Sprint(r.Error.Details["example"]) == "" {
		t.Errorf("details %v", r.Error.Details)
	}
}

func TestWhatASurfaceRefusesIsRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls atomic.Int64
	b.add(tool("a:b"), counting(&calls))
	why := toolroom.Errorf(toolroom.CodeInvalidArguments, "the word x names no argument")
	for name, want := range map[string]toolroom.Code{"a:b": toolroom.CodeInvalidArguments, "no:tool": toolroom.CodeToolNotFound} {
		r := b.Refuse(t.Context(), toolroom.Call{Tool: name}, why)
		last := b.receipts.last()
		if toolroom.CodeOf(r.Err()) != want || last.ID != r.Call || last.Error == nil || last.Error.Code != want {
			t.Errorf("%s: %v, receipt %+v", name, r.Error, last.Error)
		}
	}
	if calls.Load() != 0 {
		t.Error("it ran")
	}
}

func TestACacheOfNoToolsIsNone(t *testing.T) {
	t.Parallel()
	for pattern, good := range map[string]bool{"a.*": true, "nothing": false, "group:none": false} {
		if err := (run.CacheLimits{Tools: []string{pattern}}).Validate(); (err == nil) != good {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	yes := true
	var calls atomic.Int64
	now := time.Now()
	b := newBench(t, func(o *run.Options) {
		o.Limits.Cache = run.CacheLimits{Tools: []string{"group:readers"}, Groups: map[string][]string{"readers": {"read.*"}}, TTL: time.Minute}
		o.Now = func() time.Time { return now }
	})
	for _, id := range []string{"read:it", "read:failing", "other:it"} {
		read := tool(id)
		read.Hints.ReadOnly = &yes
		b.add(read, func(_ context.Context, req *source.Request) (*source.Output, error) {
			n := calls.Add(1)
			out := &source.Output{Value: json.RawMessage(fmt.Sprint(n))}
			out.Failed = strings.Contains(string(req.Arguments), "fail")
			return out, nil
		})
	}
	b.add(tool("read:writes"), counting(&calls))
	ask := func(name, arguments, who string) string {
		t.Helper()
		return string(b.Run(t.Context(), toolroom.Call{Tool: name, Arguments: json.RawMessage(arguments), Identity: toolroom.Identity{Subject: who}}).Value)
	}
	first := ask("read:it", `{"a":1,"b":2}`, "ann")
	for name, same := range map[string]bool{`{"b":2,"a":1}`: true, `{"a":2}`: false} {
		if got := ask("read:it", name, "ann"); (got == first) != same {
			t.Errorf("%s: %s", name, got)
		}
	}
	if ask("read:it", `{"a":1,"b":2}`, "bob") == first {
		t.Error("another caller gets the cached result")
	}
	for name, arguments := range map[string]string{"read:failing": `{"fail":1}`, "other:it": `{}`, "read:writes": `{}`} {
		if once := ask(name, arguments, "ann"); once == ask(name, arguments, "ann") {
			t.Errorf("%s %s is cached, and is not to be", name, arguments)
		}
	}
	now = now.Add(time.Minute - 1)
	if ask("read:it", `{"a":1,"b":2}`, "ann") != first {
		t.Error("a result is forgotten before its time")
	}
	now = now.Add(1)
	if ask("read:it", `{"a":1,"b":2}`, "ann") == first {
		t.Error("a result is used after its time")
	}
}

// versions serves one entry in the environment test, and none in others.
type versions struct{ served *catalog.Entry }

func (v versions) Snapshot() run.ReleaseSnapshot { return v }

func (versions) CheckUnchanged(*catalog.Entry) error { return nil }

func (v versions) Serve(call *toolroom.Call, found *catalog.Entry) (*catalog.Entry, error) {
	switch {
	case found == nil || found.ID != v.served.ID:
		return nil, nil
	case call.Environment == "test":
		return v.served, nil
	default:
		return nil, toolroom.Errorf(toolroom.CodeToolNotFound, "it has no version in %q", call.Environment)
	}
}

func TestListsAndCallsAgreeOnWhatAnEnvironmentServes(t *testing.T) {
	t.Parallel()
	denied, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"denied.*"}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, func(o *run.Options) { o.Policy = denied })
	b.add(tool("plain:it"), value(`1`))
	b.add(tool("released:it"), value(`1`))
	b.add(tool("denied:it"), value(`1`))
	entry := func(name string) *catalog.Entry {
		t.Helper()
		e, err := b.Catalog.Resolve(name, func(*catalog.Entry) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if !b.View(toolroom.Identity{}, "").Visible(entry("released:it")) {
		t.Error("without releases it is served everywhere")
	}
	served := *entry("released:it")
	served.Tool.Release = &toolroom.Release{Version: 7}
	b.Releases = versions{&served}
	for _, tt := range []struct {
		name, environment, own string
		visible                bool
	}{
		{"plain:it", "", "", true},
		{"plain:it", "test", "", true},
		{"denied:it", "test", "", false},
		{"released:it", "test", "", true},
		{"released:it", "", "test", true},
		{"released:it", "prod", "test", false},
		{"released:it", "", "", false},
	} {
		who := toolroom.Identity{Environment: tt.own}
		view := b.View(who, tt.environment)
		if view.Visible(entry(tt.name)) != tt.visible {
			t.Errorf("%+v: visible %v", tt, !tt.visible)
		}
		if tt.name == "released:it" && (view.As(entry(tt.name)) == &served) != tt.visible {
			t.Errorf("%+v: as %v", tt, view.As(entry(tt.name)))
		}
		call := toolroom.Call{Tool: tt.name, Environment: tt.environment, Identity: who}
		r := b.Run(t.Context(), call)
		if r.OK() != tt.visible {
			t.Errorf("%+v: a call: %v", tt, r.Error)
		}
		recorded, where := b.receipts.last(), ""
		if tt.visible && tt.name == "released:it" {
			where = "test"
		}
		if recorded.Environment != where || (recorded.ResultHash != "") != tt.visible {
			t.Errorf("%+v: recorded in %q, with the hash %q", tt, recorded.Environment, recorded.ResultHash)
		}
		found, err := b.Lookup(&call)
		if tt.name != "denied:it" && (err == nil) != tt.visible || err == nil && tt.name == "released:it" && found != &served {
			t.Errorf("%+v: found %v, %v", tt, found, err)
		}
	}
	if b.Visible(toolroom.Identity{Environment: "test"})(entry("released:it")) != true {
		t.Error("the caller's environment does not count")
	}
}

func TestAToolThatIsNotListedYetIsDiscovered(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	away := errors.New("the server is away")
	var asked []string
	b.Discover = func(_ context.Context, spelling string) error {
		asked = append(asked, spelling)
		switch spelling {
		case "late:it":
			b.add(tool("late:it"), value(`1`))
			return nil
		case "partly:it":
			b.add(tool("partly:it"), value(`1`))
			return away
		case "away:it":
			return away
		}
		return nil
	}
	b.add(tool("known:it"), value(`1`))
	for name, want := range map[string]string{"late:it": "", "partly:it": "", "known:it": "", "away:it": "the server is away", "none:it": "none:it"} {
		e, err := b.Find(t.Context(), &toolroom.Call{Tool: name})
		if want == "" && (err != nil || e.ID != name) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, %v", name, e, err)
		}
		if name == "away:it" && !errors.Is(err, away) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(asked) != 4 {
		t.Errorf("listed %v", asked)
	}
}

func TestAToolSeesWhereItsCallStands(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if run.SurfaceOf(t.Context()) != "" || run.CallsLeft(t.Context()) != toolroom.DefaultMaxCalls || b.CanSuspend(t.Context()) {
		t.Error("there is no call")
	}
	if run.TaintOf(t.Context()) != nil || run.AddTaint(t.Context(), taint.LabelsOf([]string{"private"}, "a:b")...) {
		t.Error("there is no call to taint")
	}
	b.add(tool("inner:it"), value(`1`))
	b.add(tool("look:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		before := run.CallsLeft(ctx)
		for range 3 {
			if r := b.Run(ctx, toolroom.Call{Tool: "inner:it"}); !r.OK() {
				return nil, r.Err()
			}
		}
		return &source.Output{Value: json.RawMessage(fmt.Sprintf(`{"used":%d,"surface":%q}`, before-run.CallsLeft(ctx), run.SurfaceOf(ctx)))}, nil
	})
	r := b.Run(t.Context(), toolroom.Call{Tool: "look:it", Surface: "mcp"})
	if string(r.Value) != `{"used":3,"surface":"mcp"}` {
		t.Errorf("%s, %v", r.Value, r.Error)
	}
}

func TestFakesAnswerForTheCallsOfATool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var calls atomic.Int64
	b.add(tool("inner:it"), counting(&calls))
	b.add(tool("outer:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		r := b.Run(ctx, toolroom.Call{Tool: "inner:it", Arguments: json.RawMessage(`{"a":1}`)})
		return &source.Output{Value: r.Value}, r.Err()
	})
	var asked []string
	ctx := run.WithFakes(t.Context(), func(c *toolroom.Call) *toolroom.Result {
		asked = append(asked, c.Tool+" "+string(c.Arguments))
		return &toolroom.Result{Status: toolroom.StatusOK, Value: json.RawMessage(`"fake"`)}
	})
	r := b.Run(ctx, toolroom.Call{Tool: "outer:it"})
	if !r.OK() || string(r.Value) != `"fake"` || calls.Load() != 0 || len(b.receipts.list) != 1 {
		t.Errorf("%s, %v: %d calls, %d receipts", r.Value, r.Error, calls.Load(), len(b.receipts.list))
	}
	if diff := cmp.Diff([]string{`inner:it {"a":1}`}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestStoredDataTaintsTheCallThatReadsIt(t *testing.T) {
	t.Parallel()
	b := trifecta(t, toolroom.VerdictDeny)
	labels := taint.LabelsOf([]string{"untrusted"}, "web:fetch")
	var seen []string
	b.add(tool("store:read"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		if !run.AddTaint(ctx, labels...) {
			return nil, errors.New("there is no call")
		}
		if r := b.Run(ctx, toolroom.Call{Tool: "files:read"}); !r.OK() {
			return nil, r.Err()
		}
		seen = taint.Names(run.TaintOf(ctx))
		return &source.Output{Value: json.RawMessage(`1`)}, nil
	})
	r := b.Run(t.Context(), toolroom.Call{Tool: "store:read"})
	if diff := cmp.Diff([]string{"private", "untrusted"}, seen); diff != "" || !r.OK() || strings.Join(r.Labels, " ") != "private untrusted" {
		t.Errorf("%v, labels %v, %s", r.Error, r.Labels, diff)
	}
	// What a caller reads outside of calls taints the session.
	call := toolroom.Call{Session: "s", Identity: toolroom.Identity{Subject: "ann"}}
	if got := b.codes(call, "files:read", "mail:send"); got != "ok ok" {
		t.Errorf("private alone: %s", got)
	}
	if err := b.TaintSession(taint.WithSession(t.Context(), "s"), "ann", nil); err != nil {
		t.Error(err)
	}
	if got := b.codes(call, "mail:send"); got != "ok" {
		t.Errorf("after no labels: %s", got)
	}
	if err := b.TaintSession(taint.WithSession(t.Context(), "s"), call.Identity.Key(), labels); err != nil {
		t.Error(err)
	}
	if got := b.codes(call, "mail:send"); got != "denied" {
		t.Errorf("after both: %s", got)
	}
	b.Taints = nil
	if err := b.TaintSession(t.Context(), "ann", labels); err != nil {
		t.Error(err)
	}
}

func TestAnErrorOfAServerIsShortened(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("rpc:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		var in struct{ Message, Data, Sent int }
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, err
		}
		text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n) + `"`) }
		e := toolroom.Errorf(toolroom.CodeExecutionFailed, "it failed")
		e.Details = map[string]any{"kept": 1}
		e.RPC = &toolroom.RPCError{Code: -32000, Message: strings.Repeat("m", in.Message), Data: text(in.Data), Sent: text(in.Sent)}
		return nil, e
	})
	for _, tt := range []struct {
		arguments           string
		message, data, sent bool // are whole
	}{
		{`{"message":10,"data":10,"sent":10}`, true, true, true},
		{`{"message":1000000,"data":10,"sent":10}`, false, true, true},
		{`{"message":10,"data":1000000,"sent":10}`, true, false, true},
		{`{"message":10,"data":10,"sent":1000000}`, true, true, false},
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "rpc:it", Arguments: json.RawMessage(tt.arguments)})
		rpc := r.Error.RPC
		if rpc == nil || rpc.Code != -32000 || (len(rpc.Message) == 10) != tt.message || (len(rpc.Data) == 12) != tt.data || (len(rpc.Sent) == 12) != tt.sent {
			t.Errorf("%s: %+v", tt.arguments, rpc)
			continue
		}
		if (r.Error.Details["rpc_data"] == nil) != tt.data || (r.Error.Details["rpc_sent"] == nil) != tt.sent || r.Error.Details["kept"] == nil {
			t.Errorf("%s: details %v", tt.arguments, r.Error.Details)
		}
	}
}

func TestEffectsArePredictedWithoutACall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	writes := tool("file:write")
	writes.Effects = []toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: "{path}"}}
	b.add(writes, value(`1`))
	e, err := b.Find(t.Context(), &toolroom.Call{Tool: "file:write"})
	if err != nil {
		t.Fatal(err)
	}
	got := b.PredictEffects(e, toolroom.Identity{}, json.RawMessage(`{"path":"/etc/passwd"}`))
	if diff := cmp.Diff([]toolroom.Effect{{Kind: toolroom.EffectFile, Mode: "write", Target: "/etc/passwd"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestACallThatWaitsTellsItsSurface(t *testing.T) {
	t.Parallel()
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
	b.add(tool("rm:it"), value(`1`))
	var began, ended *toolroom.Approval
	r := b.RunHooked(t.Context(), toolroom.Call{Tool: "rm:it"}, run.ApprovalHooks{
		Began: func(a *toolroom.Approval) (time.Duration, error) {
			began = a
			_, err := b.Approvals.Answer(t.Context(), a.ID, toolroom.Answer{Approve: true})
			return time.Minute, err
		},
		Ended: func(a *toolroom.Approval) { ended = a },
	})
	if !r.OK() || began == nil || ended == nil || ended.ID != began.ID || ended.State != toolroom.ApprovalApproved {
		t.Errorf("%v: began %+v, ended %+v", r.Error, began, ended)
	}
	closed := errors.New("the window is closed")
	r = b.RunHooked(t.Context(), toolroom.Call{Tool: "rm:it"}, run.ApprovalHooks{Began: func(*toolroom.Approval) (time.Duration, error) { return 0, closed }})
	if !errors.Is(r.Err(), closed) {
		t.Errorf("%v", r.Error)
	}
	// A surface may wait for less than the runner.
	start := time.Now()
	r = b.Run(run.WithClient(t.Context(), nil, nil, time.Millisecond), toolroom.Call{Tool: "rm:it", Arguments: json.RawMessage(`{"a":1}`)})
	if toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || r.Error.Approval == "" || time.Since(start) > time.Minute {
		t.Errorf("%v", r.Error)
	}
	if r.Error.Details["expires"] == nil {
		t.Errorf("details %v", r.Error.Details)
	}
}

func TestACallThatIsMadeSuspendableIsAJob(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "one"))
	b.add(tool("nested:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		_, err := b.Suspendable(ctx, func() {})
		return nil, err
	})
	b.add(tool("long:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		if r := b.Run(ctx, toolroom.Call{Tool: "nested:it"}); toolroom.CodeOf(r.Err()) != toolroom.CodeUnsupported {
			return nil, fmt.Errorf("a call inside another: %v", r.Error)
		}
		s, err := b.Suspendable(ctx, func() { t.Error("the job is lost") })
		if err != nil {
			return nil, err
		}
		job, err := store.Job(ctx, s.Job().ID)
		if err != nil || job.State != toolroom.JobRunning {
			return nil, fmt.Errorf("%+v, %w", job, err)
		}
		if strings.Contains(string(req.Arguments), "suspend") {
			s.Suspend()
			return nil, run.ErrSuspended
		}
		return &source.Output{Value: json.RawMessage(`"done"`)}, nil
	})
	if _, err := b.Suspendable(t.Context(), func() {}); toolroom.CodeOf(err) != toolroom.CodeUnsupported {
		t.Errorf("outside of a call: %v", err)
	}
	r := b.Run(t.Context(), toolroom.Call{Tool: "long:it", ID: "call_ends"})
	if !r.OK() {
		t.Fatal(r.Error)
	}
	job, err := store.Job(t.Context(), "call_ends")
	if err != nil || job.State != toolroom.JobDone || job.Result == nil || string(job.Result.Value) != `"done"` {
		t.Errorf("%+v, %v", job, err)
	}
	r = b.Run(t.Context(), toolroom.Call{Tool: "long:it", ID: "call_waits", Arguments: json.RawMessage(`{"suspend":true}`)})
	job, err = store.Job(t.Context(), "call_waits")
	if err != nil || job.State == toolroom.JobDone || r.OK() {
		t.Errorf("%+v, %v, %v", job, r.Error, err)
	}
	// Any process may take it now: its lease is over.
	if taken, err := store.TakeJob(t.Context(), "call_waits", time.Now().Add(time.Second), time.Now().Add(time.Minute)); err != nil || taken == nil {
		t.Errorf("%+v, %v", taken, err)
	}
}

func TestEventsSayWhoseTheyAreAndHowTheCallEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("good:it"), value(`1`))
	b.add(tool("bad:it"), func(context.Context, *source.Request) (*source.Output, error) { return nil, errors.New("no") })
	who := toolroom.Identity{Subject: "ann"}
	for name, last := range map[string]toolroom.EventKind{"good:it": toolroom.EventDone, "bad:it": toolroom.EventError, "none:it": toolroom.EventError} {
		var events []toolroom.Event
		ctx := run.WithSink(t.Context(), func(e toolroom.Event) { events = append(events, e) })
		r := b.Run(ctx, toolroom.Call{Tool: name, Identity: who})
		if len(events) == 0 || events[len(events)-1].Kind != last || events[len(events)-1].Result == nil {
			t.Errorf("%s: %+v", name, events)
		}
		if len(events) != 2 || events[0].Kind != toolroom.EventCalled {
			t.Errorf("%s: %d events", name, len(events))
		}
		for _, e := range events {
			if e.Time.IsZero() || e.Call != r.Call || e.Tool != name || e.Identity.Subject != "ann" {
				t.Errorf("%s: %+v", name, e)
			}
		}
		if surface := b.receipts.last().Surface; surface != "go" {
			t.Errorf("a call of the library is of the surface %q", surface)
		}
	}
}

func TestAChainHasALimitOfSteps(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("one:it"), value(`1`))
	for n, good := range map[int]bool{run.MaxChainSteps: true, run.MaxChainSteps + 1: false} {
		steps := make([]toolroom.Step, n)
		for i := range steps {
			steps[i] = toolroom.Step{Tool: "one:it"}
		}
		err := b.Chain(t.Context(), toolroom.Call{}, steps).Error
		if (err == nil) != good {
			t.Errorf("%d steps: %v", n, err)
		}
	}
}

func TestATokenNeedsTheScopesOfATool(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.Scopes = func(tool *toolroom.Tool) []string { return []string{"tools", tool.ID.Namespace} }
	})
	b.add(tool("pay:it"), value(`1`))
	for name, tt := range map[string]struct {
		scopes []string
		lacks  string
	}{
		"no token":   {nil, ""},
		"all":        {[]string{"pay", "more", "tools"}, ""},
		"none":       {[]string{}, "tools"},
		"one of two": {[]string{"tools"}, "pay"},
	} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", Identity: toolroom.Identity{Subject: "ann", Scopes: tt.scopes}})
		if tt.lacks == "" {
			if !r.OK() {
				t.Errorf("%s: %v", name, r.Error)
			}
			continue
		}
		if toolroom.CodeOf(r.Err()) != toolroom.CodeDenied || r.Error.Details["scope"] != tt.lacks || !strings.Contains(r.Error.Hint, tt.lacks) {
			t.Errorf("%s: %v", name, r.Error)
		}
	}
}

func TestAToolThatWantsAPersonAsksOne(t *testing.T) {
	t.Parallel()
	denied, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"denied.*"}}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))), func(o *run.Options) { o.Policy = denied })
	for _, id := range []string{"asks:it", "denied:it"} {
		asks := tool(id)
		asks.Confirm = "its definition has changed"
		b.add(asks, value(`1`))
	}
	b.add(tool("free:it"), value(`1`))
	for name, want := range map[string]toolroom.Code{"asks:it": toolroom.CodeApprovalRequired, "denied:it": toolroom.CodeDenied, "free:it": ""} {
		r := b.Run(t.Context(), toolroom.Call{Tool: name, NoWait: true})
		if toolroom.CodeOf(r.Err()) != want {
			t.Errorf("%s: %v", name, r.Error)
		}
		if want == toolroom.CodeApprovalRequired {
			if a, err := b.Approvals.Get(t.Context(), r.Error.Approval); err != nil || !strings.Contains(a.Reason, "its definition has changed") {
				t.Errorf("%+v, %v", a, err)
			}
		}
	}
}

func TestReleasedToolsAreToldOfTheirCalls(t *testing.T) {
	t.Parallel()
	var told []string
	b := newBench(t, func(o *run.Options) {
		o.OnServed = func(call toolroom.Call, tool *toolroom.Tool, result *toolroom.Result) {
			told = append(told, fmt.Sprintf("%s %d %s", tool.ID, tool.Release.Version, result.Status))
		}
	})
	released := tool("released:it")
	released.Release = &toolroom.Release{Version: 3}
	b.add(released, value(`1`))
	b.add(tool("plain:it"), value(`1`))
	for _, name := range []string{"released:it", "plain:it", "none:it"} {
		b.Run(t.Context(), toolroom.Call{Tool: name})
	}
	if diff := cmp.Diff([]string{"released:it 3 ok"}, told); diff != "" {
		t.Error(diff)
	}
}

func TestAValueThatRepeatsItsTextIsShownOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const limit = 1000
	items := strings.Repeat(`"item",`, 120)
	wide := `{ "list":  [` + strings.ReplaceAll(items, ",", ",          ") + `"end"] }`
	narrow := `{"list":[` + items + `"end"]}`
	for name, tt := range map[string]struct{ text, value, want string }{
		"the same":           {narrow, narrow, narrow},
		"with other spaces":  {narrow, wide, narrow},
		"the text in a box":  {"hello", `{"result":"hello"}`, `{"result":"hello"}`},
		"another text in it": {"hello", `{"result":"other"}`, `{"result":"other"}`},
	} {
		id := "repeat:" + strings.ReplaceAll(name, " ", "_")
		b.add(tool(id), func(context.Context, *source.Request) (*source.Output, error) {
			return &source.Output{Value: json.RawMessage(tt.value), Content: []toolroom.Content{toolroom.TextContent(tt.text)}}, nil
		})
		r := b.Run(t.Context(), toolroom.Call{Tool: id, MaxOutput: limit})
		if !r.OK() || string(r.Value) != tt.want || r.Text() != tt.text {
			t.Errorf("%s: %d bytes of value, %d of text, %v", name, len(r.Value), len(r.Text()), r.Error)
		}
	}
}

func TestASecondCallWithAKeyWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"))
	began, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	b.add(tool("slow:it"), func(context.Context, *source.Request) (*source.Output, error) {
		calls.Add(1)
		close(began)
		<-release
		return &source.Output{Value: json.RawMessage(`1`)}, nil
	})
	call := toolroom.Call{Tool: "slow:it", IdempotencyKey: "k"}
	first, second := make(chan *toolroom.Result), make(chan *toolroom.Result)
	go func() { first <- b.Run(t.Context(), call) }()
	<-began
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if r := b.Run(gone, call); toolroom.CodeOf(r.Err()) != toolroom.CodeCancelled {
		t.Errorf("a caller that gives up: %v", r.Error)
	}
	go func() { second <- b.Run(t.Context(), call) }()
	close(release)
	for _, r := range []*toolroom.Result{<-first, <-second} {
		if !r.OK() || string(r.Value) != "1" {
			t.Errorf("%s, %v", r.Value, r.Error)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("it ran %d times", calls.Load())
	}
}
