package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a runner over Go functions, with its receipts in a list.
type bench struct {
	*run.Runner
	t        *testing.T
	funcs    *gofunc.Source
	receipts *receiptList
}

func newBench(t *testing.T, configure ...func(*run.Options)) *bench {
	t.Helper()
	b := &bench{t: t, funcs: &gofunc.Source{}, receipts: &receiptList{}}
	o := run.Options{Catalog: catalog.New(catalog.Options{}), Receipts: b.receipts, Owner: "test"}
	for _, f := range configure {
		f(&o)
	}
	b.Runner = run.New(o)
	return b
}

func (b *bench) add(tool toolroom.Tool, h gofunc.Handler) {
	b.t.Helper()
	if tool.Source == "" {
		tool.Source = toolroom.SourceGo
	}
	b.funcs.Put(gofunc.Func{Tool: tool, Handler: h})
	if err := b.Catalog.Register("go", b.funcs, tool); err != nil {
		b.t.Fatal(err)
	}
}

func tool(id string) toolroom.Tool { return toolroom.Tool{ID: toolroom.MustParseID(id)} }

func value(text string) gofunc.Handler {
	return func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Value: json.RawMessage(text)}, nil
	}
}

// receiptList keeps receipts in memory, and can refuse as a full disk does.
type receiptList struct {
	mu   sync.Mutex
	list []*receipt.Draft
	full error
	// unpromised is why no call may be begun that must be recorded.
	unpromised error
}

func (l *receiptList) Append(_ context.Context, r *receipt.Draft) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, r)
	return nil
}
func (l *receiptList) Ready() error                { return l.full }
func (l *receiptList) Flush(context.Context) error { return nil }
func (l *receiptList) Intend(context.Context, *toolroom.Receipt, string) error {
	return errors.Join(l.full, l.unpromised)
}

func (l *receiptList) last() *receipt.Draft {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.list[len(l.list)-1]
}

func TestScalarsListsAndLargeIntegersArriveUnchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("echo:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		var in struct{ V json.RawMessage }
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, err
		}
		return &source.Output{Value: in.V}, nil
	})
	for _, v := range []string{`5`, `"text"`, `true`, `null`, `[1,2]`, `9007199254740993`, `{"z":1,"a":123456789012345678901234567890}`} {
		r := b.Run(t.Context(), toolroom.Call{Tool: "echo:it", Arguments: json.RawMessage(`{"V":` + v + `}`)})
		if r.Status != toolroom.StatusOK || string(r.Value) != v {
			t.Errorf("%s came back as %s (%s, %v)", v, r.Value, r.Status, r.Error)
		}
	}
}

func TestEachFailureHasItsCodePhaseStatusAndReceipt(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"secret.*"}}})
		if err != nil {
			t.Fatal(err)
		}
		o.Policy = layers
	})
	b.add(tool("a:same"), value(`1`))
	b.add(tool("b:same"), value(`1`))
	b.add(tool("secret:x"), value(`1`))
	b.add(tool("fail:plain"), func(context.Context, *source.Request) (*source.Output, error) { return nil, errors.New("no luck") })
	b.add(tool("fail:output"), func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Failed: true, Content: []toolroom.Content{toolroom.TextContent("it broke")}}, nil
	})
	b.add(tool("fail:panic"), func(context.Context, *source.Request) (*source.Output, error) { panic("boom") })

	for _, c := range []struct {
		name, tool, args string
		code             toolroom.Code
		phase            toolroom.Phase
		status           toolroom.Status
		effects          toolroom.Effects
	}{
		{"a bad id", "no spaces", `{}`, toolroom.CodeInvalidID, toolroom.PhaseResolve, toolroom.StatusError, toolroom.EffectsNone},
		{"an unknown tool", "a:nothing", `{}`, toolroom.CodeToolNotFound, toolroom.PhaseResolve, toolroom.StatusError, toolroom.EffectsNone},
		{"an ambiguous name", "same", `{}`, toolroom.CodeAmbiguousTool, toolroom.PhaseResolve, toolroom.StatusError, toolroom.EffectsNone},
		{"broken JSON", "a:same", `{"a":`, toolroom.CodeInvalidArguments, toolroom.PhaseValidateInput, toolroom.StatusError, toolroom.EffectsNone},
		{"a list as arguments", "a:same", `[1]`, toolroom.CodeInvalidArguments, toolroom.PhaseValidateInput, toolroom.StatusError, toolroom.EffectsNone},
		{"a duplicate key", "a:same", `{"a":1,"a":2}`, toolroom.CodeInvalidArguments, toolroom.PhaseValidateInput, toolroom.StatusError, toolroom.EffectsNone},
		{"a denied tool", "secret:x", `{}`, toolroom.CodeDenied, toolroom.PhasePolicy, toolroom.StatusDenied, toolroom.EffectsNone},
		{"a plain error", "fail:plain", `{}`, toolroom.CodeExecutionFailed, toolroom.PhaseExecute, toolroom.StatusError, toolroom.EffectsUnknown},
		{"a failed tool", "fail:output", `{}`, toolroom.CodeExecutionFailed, toolroom.PhaseExecute, toolroom.StatusError, toolroom.EffectsUnknown},
		{"a panic", "fail:panic", `{}`, toolroom.CodeExecutionFailed, toolroom.PhaseExecute, toolroom.StatusError, toolroom.EffectsUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := b.Run(t.Context(), toolroom.Call{Tool: c.tool, Arguments: json.RawMessage(c.args)})
			if r.Error == nil || r.Error.Code != c.code || r.Error.Phase != c.phase || r.Status != c.status || r.Effects != c.effects {
				t.Fatalf("got %s/%s effects %s, error %+v; want %s in %s", r.Status, r.Effects, r.Effects, r.Error, c.code, c.phase)
			}
			if want := map[bool]string{true: "a:same", false: c.tool}[c.args != `{}`]; r.Error.Tool != want || r.Tool != want {
				t.Errorf("the tool is %q, that of the error %q", r.Tool, r.Error.Tool)
			}
			if kept := b.receipts.last(); kept.ID != r.Call || kept.Error == nil || kept.Error.Code != c.code {
				t.Errorf("the receipt does not fit: %+v", kept)
			}
		})
	}
}

func TestANegativeTimeoutIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("a:b"), value(`1`))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "a:b", Timeout: -5}); toolroom.CodeOf(r.Err()) != toolroom.CodeInvalidArguments {
		t.Errorf("a call: %v", r.Err())
	}
	chain := b.Chain(t.Context(), toolroom.Call{}, []toolroom.Step{{Tool: "a:b", Timeout: -5}})
	if chain.Error == nil || chain.Error.Code != toolroom.CodeInvalidArguments {
		t.Errorf("a step: %v", chain.Error)
	}
}

func TestATimeoutEndsTheWorkAndAStubbornToolIsLeftBehind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ended := make(chan struct{})
	b.add(tool("slow:polite"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	release := make(chan struct{})
	b.add(tool("slow:stubborn"), func(context.Context, *source.Request) (*source.Output, error) {
		<-release
		return &source.Output{}, nil
	})
	r := b.Run(t.Context(), toolroom.Call{Tool: "slow:polite", Timeout: 20 * time.Millisecond})
	if r.Status != toolroom.StatusTimeout || r.Effects != toolroom.EffectsUnknown {
		t.Errorf("got %s, effects %s", r.Status, r.Effects)
	}
	<-ended
	r = b.Run(t.Context(), toolroom.Call{Tool: "slow:stubborn", Timeout: 20 * time.Millisecond})
	close(release)
	if r.Status != toolroom.StatusTimeout || !strings.Contains(r.Error.Message, "has not stopped") {
		t.Errorf("got %s: %v", r.Status, r.Error)
	}
}

func TestACancelledCallerIsNotATimeout(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.add(tool("slow:polite"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if r := b.Run(ctx, toolroom.Call{Tool: "slow:polite"}); r.Status != toolroom.StatusCancelled || r.Error.Code != toolroom.CodeCancelled {
		t.Errorf("got %s: %v", r.Status, r.Error)
	}
	if kept := b.receipts.last(); kept.Status != toolroom.StatusCancelled {
		t.Errorf("the receipt says %s", kept.Status)
	}
}

func TestChildCallsInheritIdentityAndBudgetAndCyclesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("leaf:it"), value(`"leaf"`))
	b.add(tool("parent:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		r := b.Run(ctx, toolroom.Call{Tool: "leaf:it", Identity: toolroom.Identity{Subject: "somebody else"}})
		return &source.Output{Value: r.Value}, r.Err()
	})
	b.add(tool("cycle:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{}, b.Run(ctx, toolroom.Call{Tool: "cycle:it"}).Err()
	})
	who := toolroom.Identity{Subject: "ada"}
	r := b.Run(t.Context(), toolroom.Call{Tool: "parent:it", Identity: who})
	if r.Error != nil || r.Usage.Calls != 1 {
		t.Fatalf("got %+v", r)
	}
	child := b.receipts.list[0]
	if child.Parent != r.Call || child.Identity.Subject != "ada" {
		t.Errorf("the child's receipt is %+v", child)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "cycle:it"}); toolroom.CodeOf(r.Err()) != toolroom.CodeBudgetExceeded {
		t.Errorf("a cycle gave %v", r.Error)
	}
	budget, err := toolroom.NewBudget(toolroom.BudgetLimits{Bytes: 3})
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "parent:it", Budget: budget}); toolroom.CodeOf(r.Err()) != toolroom.CodeBudgetExceeded {
		t.Errorf("an exhausted budget gave %v", r.Error)
	}
}

func TestNothingIsCalledWhileReceiptsCannotBeKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var ran atomic.Bool
	b.add(tool("a:it"), func(context.Context, *source.Request) (*source.Output, error) {
		ran.Store(true)
		return &source.Output{}, nil
	})
	b.receipts.full = errors.New("no space left on device")
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:it"})
	if ran.Load() || r.Error == nil || r.Error.Phase != toolroom.PhaseReceipt || !r.Error.Retryable {
		t.Errorf("ran %v, error %+v", ran.Load(), r.Error)
	}
	if !b.receipts.last().Refused {
		t.Error("its receipt does not give way to those of calls that ran")
	}
}

func TestArgumentsThatAreNoneAreNotRecorded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("a:it"), value(`1`))
	r := b.Run(t.Context(), toolroom.Call{Tool: "a:it", Arguments: json.RawMessage(`{"a":1,"a":2}`)})
	if got := b.receipts.last().Arguments; r.Error == nil || len(got) != 0 {
		t.Errorf("error %v, recorded %s", r.Error, got)
	}
}

func TestTheEmptyPointerMakesAllArgumentsSensitive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := tool("login:it")
	x.Sensitive = []string{"/user", ""}
	b.add(x, value(`1`))
	b.Run(t.Context(), toolroom.Call{Tool: "login:it", Arguments: json.RawMessage(`{"password":"hunter2","user":"ann"}`)})
	if got := string(b.receipts.last().Arguments); got != `"[sensitive]"` {
		t.Errorf("got %s", got)
	}
}

func TestSensitiveArgumentsNeverReachTheReceipt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := tool("login:it")
	x.Sensitive = []string{"/password", "/users/-/key"}
	b.add(x, value(`1`))
	args := `{"password":"hunter2","users":[{"key":"abc","name":"n"}],"n":9007199254740993}`
	b.Run(t.Context(), toolroom.Call{Tool: "login:it", Arguments: json.RawMessage(args)})
	got := string(b.receipts.last().Arguments)
	if want := `{"n":9007199254740993,"password":"[sensitive]","users":[{"key":"[sensitive]","name":"n"}]}`; got != want {
		t.Errorf("got %s", got)
	}
}

func TestASecretAcrossACutIsRedactedWhole(t *testing.T) {
	t.Parallel()
	const hush = "correct-horse-battery"
	b := newBench(t, func(o *run.Options) {
		o.Secrets = knowing(hush)
	})
	// The preview of a receipt ends after 512 bytes, the text of a failure after
	// 2,000: each time in the middle of the secret.
	for _, c := range []struct {
		name   string
		before int
		failed bool
	}{{"preview", 505, false}, {"failure", 1990, true}} {
		b.add(tool("leaky:"+c.name), func(context.Context, *source.Request) (*source.Output, error) {
			text := strings.Repeat("x", c.before) + hush + strings.Repeat("y", 2000)
			return &source.Output{Failed: c.failed, Content: []toolroom.Content{toolroom.TextContent(text)}}, nil
		})
		b.Run(t.Context(), toolroom.Call{Tool: "leaky:" + c.name})
		kept, err := json.Marshal(b.receipts.last())
		if err != nil || strings.Contains(string(kept), hush[:4]) {
			t.Errorf("%s: the receipt holds a part of the secret: %s, %v", c.name, kept, err)
		}
	}
}

func TestStreamYieldsEveryEventAndExactlyOneEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("count:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		for i := range 100 {
			req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: float64(i + 1), Total: 100}})
		}
		return &source.Output{Value: json.RawMessage(`"done"`)}, nil
	})
	var kinds []toolroom.EventKind
	for e := range b.Stream(t.Context(), toolroom.Call{Tool: "count:it"}) {
		kinds = append(kinds, e.Kind)
		if e.Kind == toolroom.EventDone && string(e.Result.Value) != `"done"` {
			t.Errorf("the end carries %+v", e.Result)
		}
	}
	if len(kinds) != 102 || kinds[0] != toolroom.EventCalled || kinds[101] != toolroom.EventDone {
		t.Errorf("got %d events: %v", len(kinds), kinds)
	}
}

func TestTheFirstEventHasTheArgumentsOfTheReceipt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	x := tool("login:it")
	x.Sensitive = []string{"/password"}
	b.add(x, value(`1`))
	for name, want := range map[string]string{"login:it": `{"password":"[sensitive]","user":"ada"}`, "login:unknown": ""} {
		for e := range b.Stream(t.Context(), toolroom.Call{Tool: name, Arguments: json.RawMessage(`{"user":"ada","password":"hunter2"}`)}) {
			if e.Kind == toolroom.EventCalled && string(e.Arguments) != want {
				t.Errorf("%s: got %s, want %s", name, e.Arguments, want)
			}
		}
	}
}

func TestLeavingAStreamCancelsTheCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("endless:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		for ctx.Err() == nil {
			req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage(`"x"`)})
		}
		return nil, ctx.Err()
	})
	n := 0
	for range b.Stream(t.Context(), toolroom.Call{Tool: "endless:it"}) {
		if n++; n == 5 {
			break
		}
	}
	if kept := b.receipts.last(); kept.Status != toolroom.StatusCancelled {
		t.Errorf("the receipt says %s", kept.Status)
	}
}

func TestABatchAnswersInTheOrderOfItsCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var now, most atomic.Int64
	b.add(tool("echo:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		return &source.Output{Value: req.Arguments}, nil
	})
	calls := make([]toolroom.Call, 50)
	for i := range calls {
		calls[i] = toolroom.Call{Tool: "echo:it", Arguments: json.RawMessage(`{"i":` + string(rune('0'+i%10)) + `}`)}
	}
	calls[7].Tool = "no:such"
	for i, r := range b.Batch(t.Context(), calls, 4) {
		if i == 7 {
			if r.Status != toolroom.StatusError {
				t.Errorf("call 7: %s", r.Status)
			}
		} else if string(r.Value) != string(calls[i].Arguments) {
			t.Errorf("call %d: %s", i, r.Value)
		}
	}
	if most.Load() > 4 {
		t.Errorf("%d ran at once", most.Load())
	}
}
