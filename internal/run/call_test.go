package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func TestTheDefaultsOfLimits(t *testing.T) {
	t.Parallel()
	want := run.Limits{
		Timeout: 30 * time.Second, MaxTimeout: 10 * time.Minute, ApprovalWait: 10 * time.Minute,
		OutputBytes: 51_200, InputBytes: 4 << 20, KeyTTL: 24 * time.Hour,
		Retry:   run.RetryLimits{Attempts: 3, Base: 100 * time.Millisecond, Max: 30 * time.Second},
		Breaker: run.BreakerLimits{Failures: 5, Delay: 1500 * time.Millisecond},
		Cache:   run.CacheLimits{TTL: 5 * time.Minute, Entries: 1000},
	}
	if diff := cmp.Diff(want, newBench(t).Limits()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	long := run.Limits{Cache: run.CacheLimits{TTL: 2 * time.Hour}}
	if got := newBench(t, func(o *run.Options) { o.Limits = long }).Limits().Cache.TTL; got != time.Hour {
		t.Errorf("a result may be used for %s", got)
	}
}

// ticking is a clock that only its owner moves.
type ticking struct{ atomic.Int64 }

func (c *ticking) now() time.Time { return time.Unix(1_700_000_000, c.Load()) }

func (c *ticking) pass(d time.Duration) { c.Add(int64(d)) }

func TestTheUsageOfACallSaysWhereItsTimeWent(t *testing.T) {
	t.Parallel()
	var clock ticking
	b := newBench(t, func(o *run.Options) {
		o.Now = clock.now
		o.Policy = deciderFunc(func(r policy.Request) policy.Decision {
			if r.Call != nil {
				clock.pass(5 * time.Second)
			}
			if r.Tool.ID.Namespace == "denied" {
				return policy.Decision{Effect: toolroom.VerdictDeny}
			}
			return policy.Decision{Effect: toolroom.VerdictAllow}
		})
	})
	works := func(context.Context, *source.Request) (*source.Output, error) {
		clock.pass(7 * time.Second)
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent("four"), {Type: toolroom.ContentImage, Data: []byte("PNG")}}, CPU: 3 * time.Second, PeakMemory: 9}, nil
	}
	b.add(tool("good:it"), works)
	b.add(tool("denied:it"), works)
	got := b.Run(t.Context(), toolroom.Call{Tool: "good:it", Arguments: json.RawMessage(`{"a":1}`)})
	want := toolroom.Usage{Queue: 5 * time.Second, Run: 7 * time.Second, Attempts: 1, BytesIn: 7, BytesOut: int64(len(got.Value)) + 7, CPU: 3 * time.Second, PeakMemory: 9}
	if diff := cmp.Diff(want, got.Usage); diff != "" {
		t.Errorf("a call that ran (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(toolroom.Usage{Queue: 5 * time.Second, BytesIn: 2}, b.Run(t.Context(), toolroom.Call{Tool: "denied:it", Arguments: json.RawMessage(`{}`)}).Usage); diff != "" {
		t.Errorf("a call that was denied (-want +got):\n%s", diff)
	}
}

func TestAValueIsMadeOfTheContent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	text, image := toolroom.TextContent("hello"), toolroom.Content{Type: toolroom.ContentImage, MIMEType: "image/png", Data: []byte("PNG")}
	for want, out := range map[string]source.Output{
		``:             {},
		`1`:            {Value: json.RawMessage(`1`), Content: []toolroom.Content{text}},
		`"hello"`:      {Content: []toolroom.Content{text}},
		`["hello",{}]`: {Content: []toolroom.Content{text, toolroom.TextContent(" {} ")}},
		`["hello",{"type":"image","data":"UE5H","mimeType":"image/png"}]`: {Content: []toolroom.Content{text, image}},
		`[{"type":"image","data":"UE5H","mimeType":"image/png"}]`:         {Content: []toolroom.Content{image}},
	} {
		b.add(tool("make:it"), output(&out))
		if r := b.Run(t.Context(), toolroom.Call{Tool: "make:it"}); string(r.Value) != want || !r.OK() || r.Effects != toolroom.EffectsDone {
			t.Errorf("got %s, %v, want %s", r.Value, r.Error, want)
		}
	}
	b.add(tool("fail:silent"), output(&source.Output{Failed: true}))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "fail:silent"}); toolroom.CodeOf(r.Err()) != toolroom.CodeExecutionFailed || r.Error.Message != "fail:silent failed: no reason given" {
		t.Errorf("a tool that fails and says nothing: %v", r.Error)
	}
	b.add(tool("bad:json"), output(&source.Output{Content: []toolroom.Content{image, {Type: "novel", Raw: json.RawMessage(`{`)}}}))
	if r := b.Run(t.Context(), toolroom.Call{Tool: "bad:json"}); toolroom.CodeOf(r.Err()) != toolroom.CodeInvalidOutput {
		t.Errorf("content that cannot be written: %v", r.Error)
	}
}

func TestOnlyTheValuesOfCallsInsideCountAgainstTheBytesOfABudget(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.add(tool("leaf:it"), value(`"12345"`))
	var inner toolroom.Code
	b.add(tool("outer:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		inner = toolroom.CodeOf(b.Run(ctx, toolroom.Call{Tool: "leaf:it"}).Err())
		return &source.Output{Value: json.RawMessage(`"a long value of its own"`)}, nil
	})
	for most, want := range map[int64]toolroom.Code{6: toolroom.CodeBudgetExceeded, 7: ""} {
		budget, err := toolroom.NewBudget(toolroom.BudgetLimits{Bytes: most})
		if err != nil {
			t.Fatal(err)
		}
		if r := b.Run(t.Context(), toolroom.Call{Tool: "outer:it", Budget: budget}); !r.OK() || inner != want {
			t.Errorf("a budget of %d bytes: %v, the call inside %q", most, r.Error, inner)
		}
	}
}

func TestASourceGetsTheBudgetOfItsTreeUnlessItIsTheCallersOwn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got := map[string]*toolroom.Budget{}
	note := func(_ context.Context, req *source.Request) (*source.Output, error) {
		got[req.Tool.String()] = req.Budget
		return &source.Output{}, nil
	}
	b.add(tool("inner:it"), note)
	b.add(tool("outer:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		b.Run(ctx, toolroom.Call{Tool: "inner:it"})
		return note(ctx, req)
	})
	b.Run(t.Context(), toolroom.Call{Tool: "outer:it"})
	if got["outer:it"] == nil || got["inner:it"] != nil {
		t.Errorf("got %v", got)
	}
	own, err := toolroom.NewBudget(toolroom.BudgetLimits{})
	if err != nil {
		t.Fatal(err)
	}
	b.Run(t.Context(), toolroom.Call{Tool: "outer:it", Budget: own})
	if got["outer:it"] != nil {
		t.Error("a budget of the caller's own can grow")
	}
}

func TestACycleIsExplained(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var last *toolroom.Result
	calls := func(name string) func(context.Context, *source.Request) (*source.Output, error) {
		return func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			r := b.Run(ctx, toolroom.Call{Tool: name})
			if last == nil {
				last = r
			}
			return nil, r.Err()
		}
	}
	b.add(tool("first:it"), calls("middle:it"))
	b.add(tool("middle:it"), calls("last:it"))
	b.add(tool("last:it"), calls("middle:it"))
	b.Run(t.Context(), toolroom.Call{Tool: "first:it"})
	if last == nil || toolroom.CodeOf(last.Err()) != toolroom.CodeBudgetExceeded {
		t.Fatalf("%+v", last)
	}
	if diff := cmp.Diff(any([]string{"first:it", "middle:it", "last:it", "middle:it"}), last.Error.Details["cycle"]); diff != "" {
		t.Error(diff)
	}
}

// changing are releases in which every definition has changed since the call began.
type changing struct{ asked *[]string }

func (c changing) Snapshot() run.ReleaseSnapshot { return c }

func (c changing) CheckUnchanged(e *catalog.Entry) error {
	*c.asked = append(*c.asked, e.ID)
	return toolroom.Errorf(toolroom.CodeConflict, "%s has changed", e.ID)
}

func (changing) Serve(*toolroom.Call, *catalog.Entry) (*catalog.Entry, error) { return nil, nil }

func TestOnlyCallsInsideAndRetriesAreRefusedBecauseTheirToolHasChanged(t *testing.T) {
	t.Parallel()
	var asked []string
	b := newBench(t, func(o *run.Options) {
		o.Releases, o.Limits.Retry = changing{&asked}, run.RetryLimits{Base: time.Millisecond}
	})
	var calls atomic.Int64
	b.add(tool("inner:it"), counting(&calls))
	b.add(tool("outer:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		return nil, b.Run(ctx, toolroom.Call{Tool: "inner:it"}).Err()
	})
	if r := b.Run(t.Context(), toolroom.Call{Tool: "outer:it"}); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict || calls.Load() != 0 || !slices.Equal(asked, []string{"inner:it"}) {
		t.Errorf("%v: asked about %v, %d calls", r.Error, asked, calls.Load())
	}
	asked = nil
	flaky := tool("flaky:it")
	flaky.Guarantee = toolroom.GuaranteeSafe
	handler, tries := failing(5)
	b.add(flaky, handler)
	if r := b.Run(t.Context(), toolroom.Call{Tool: "flaky:it"}); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict || tries.Load() != 1 || len(asked) != 1 {
		t.Errorf("%v: asked about %v, %d tries", r.Error, asked, tries.Load())
	}
}

func TestATimeoutSaysHowToGetMoreTimeAndACancellationDoesNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // no time passes before a tool has begun
		b := newBench(t)
		polite := func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			<-ctx.Done()
			e := toolroom.Errorf(toolroom.CodeUpstreamError, "stopped")
			e.Details = map[string]any{"sent": 3}
			return nil, e
		}
		reads := tool("slow:reads")
		reads.Guarantee, reads.Timeout = toolroom.GuaranteeSafe, 90*time.Second
		b.add(reads, polite)
		b.add(tool("slow:writes"), polite)
		b.add(tool("slow:ends"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			<-ctx.Done()
			return &source.Output{Value: json.RawMessage(`1`)}, nil
		})
		r := b.Run(t.Context(), toolroom.Call{Tool: "slow:reads", Timeout: time.Millisecond})
		if e := r.Error; toolroom.CodeOf(r.Err()) != toolroom.CodeTimeout || !e.Retryable || !strings.Contains(e.Hint, "at most 1m30s") || e.Details["sent"] != 3 || e.Tool != "slow:reads" || strings.Contains(e.Message, "has not stopped") {
			t.Errorf("a timeout: %+v", e)
		}
		if e := b.Run(t.Context(), toolroom.Call{Tool: "slow:writes", Timeout: time.Millisecond}).Error; e == nil || e.Retryable || !strings.Contains(e.Hint, "at most 10m0s") {
			t.Errorf("a timeout of a tool that may not be repeated: %+v", e)
		}
		if r := b.Run(t.Context(), toolroom.Call{Tool: "slow:ends", Timeout: time.Millisecond}); !r.OK() || string(r.Value) != "1" {
			t.Errorf("a tool that ended its work: %v", r.Error)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		b.add(tool("slow:left"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
			cancel(nil)
			return polite(ctx, req)
		})
		if e := b.Run(ctx, toolroom.Call{Tool: "slow:left"}).Error; e == nil || e.Code != toolroom.CodeCancelled || e.Hint != "" || e.Message != "slow:left was cancelled" {
			t.Errorf("a cancellation: %+v", e)
		}
		stopping, stop := context.WithCancelCause(t.Context())
		b.add(tool("slow:stopped"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
			if n := b.Running(); n != 1 {
				t.Errorf("%d calls are running", n)
			}
			stop(run.ErrStopped)
			return polite(ctx, req)
		})
		if e := b.Run(stopping, toolroom.Call{Tool: "slow:stopped"}).Error; e == nil || e.Code != toolroom.CodeCancelled || e.Message != "slow:stopped was cancelled, because the server stopped" {
			t.Errorf("a server that stops: %+v", e)
		}
		if n := b.Running(); n != 0 {
			t.Errorf("after the last call %d calls are running", n)
		}
	})
}

func TestAReceiptHoldsWhatACallDidAndNoMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"), func(o *run.Options) { o.Secrets = knowing("hunter2secret") })
	refused := []toolroom.RefusedConnection{{Address: "evil.example:443", Reason: "not listed"}}
	b.add(tool("good:it"), output(&source.Output{Value: json.RawMessage(`1`), Execution: &toolroom.Execution{Refused: refused, Stdout: "printed"}}))
	b.add(tool("bad:it"), func(context.Context, *source.Request) (*source.Output, error) {
		e := toolroom.Errorf(toolroom.CodeUpstreamError, "no")
		e.Hint, e.Details, e.Cause = "try this", map[string]any{"a": 1}, errors.New("why")
		return nil, e
	})
	args := json.RawMessage(`{"key":"plain"}`)
	b.Run(t.Context(), toolroom.Call{Tool: "good:it", Arguments: args})
	got := b.receipts.last()
	if string(got.RawArguments) != string(args) || string(got.Arguments) != string(args) || got.ArgumentsHash != "" {
		t.Errorf("called with %s, shown as %s, hash %q", got.RawArguments, got.Arguments, got.ArgumentsHash)
	}
	if diff := cmp.Diff(refused, got.Connections); diff != "" || got.ResultHash != receipt.Hash([]byte("1")) || len(got.Logs) != 1 || got.Logs[0].Message != "printed" || got.Value != nil {
		t.Errorf("the receipt is %+v, %s", got, diff)
	}
	secret := json.RawMessage(`{"key":"hunter2secret"}`)
	b.Run(t.Context(), toolroom.Call{Tool: "good:it", Arguments: secret})
	got = b.receipts.last()
	if string(got.RawArguments) != `{"key":"hunter2secret"}` || &got.RawArguments[0] == &secret[0] || string(got.Arguments) != `{"key":"[secret s/v]"}` {
		t.Errorf("called with %s, shown as %s", got.RawArguments, got.Arguments)
	}
	b.Run(t.Context(), toolroom.Call{Tool: "good:it", Arguments: args, IdempotencyKey: "k"})
	if got = b.receipts.last(); got.RawArguments != nil || got.ArgumentsHash != receipt.Hash(args) || got.Key != "k" {
		t.Errorf("with a key: called with %s, hash %q", got.RawArguments, got.ArgumentsHash)
	}
	r := b.Run(t.Context(), toolroom.Call{Tool: "bad:it"})
	e := b.receipts.last().Error
	if e == nil || e.Message != "no" || e.Hint != "" || e.Details != nil || e.Cause != nil || r.Error.Hint != "try this" || r.Error.Details["a"] != 1 {
		t.Errorf("recorded %+v, returned %+v", e, r.Error)
	}
}

func TestTheReceiptOfACallInsideHasItsShortValue(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) { o.Limits.OutputBytes = 20_000 })
	b.add(tool("outer:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		return nil, b.Run(ctx, toolroom.Call{Tool: string(req.Arguments[len(`{"tool":"`) : len(req.Arguments)-2])}).Err()
	})
	longest := `"` + xs(receipt.MaxValue-2) + `"`
	for name, c := range map[string]struct {
		out  source.Output
		want string
	}{
		"an object":  {source.Output{Value: json.RawMessage(`{"a":1}`)}, `{"a":1}`},
		"a text":     {source.Output{Content: []toolroom.Content{toolroom.TextContent("hello")}}, `"hello"`},
		"nothing":    {source.Output{}, `""`},
		"the most":   {source.Output{Value: json.RawMessage(longest)}, longest},
		"too much":   {source.Output{Value: json.RawMessage(`"` + longest[1:] + ` `)}, ``},
		"a part":     {source.Output{Value: json.RawMessage(`"` + xs(30_000) + `"`)}, ``},
		"no success": {source.Output{Value: json.RawMessage(`1`), Failed: true}, ``},
	} {
		id := "inner:" + strings.ReplaceAll(name, " ", "_")
		b.add(tool(id), output(&c.out))
		b.Run(t.Context(), toolroom.Call{Tool: "outer:it", Arguments: json.RawMessage(`{"tool":"` + id + `"}`)})
		if got := b.receipts.list[len(b.receipts.list)-2]; string(got.Value) != c.want || got.Tool != id {
			t.Errorf("%s: %s has %.100s", name, got.Tool, got.Value)
		}
	}
}

func TestOnlyToolsThatMustBeRecordedWaitForTheirRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *run.Options) {
		o.MustRecord = func(tool *toolroom.Tool) bool { return tool.ID.Namespace == "pay" }
	})
	b.add(tool("pay:it"), value(`1`))
	b.add(tool("look:it"), value(`1`))
	b.receipts.unpromised = errors.New("the disk is full")
	if r := b.Run(t.Context(), toolroom.Call{Tool: "look:it"}); !r.OK() {
		t.Error(r.Error)
	}
	if e := b.Run(t.Context(), toolroom.Call{Tool: "pay:it"}).Error; e == nil || !e.Retryable || e.Phase != toolroom.PhaseReceipt || !strings.Contains(e.Hint, "nothing was run") {
		t.Errorf("got %+v", e)
	}
}
