package run_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func unavailable() error {
	return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "nobody is there")
}

// failing gives a tool that fails so often before it works, and its call count.
func failing(times int64) (func(context.Context, *source.Request) (*source.Output, error), *atomic.Int64) {
	var calls atomic.Int64
	return func(context.Context, *source.Request) (*source.Output, error) {
		if calls.Add(1) <= times {
			return nil, unavailable()
		}
		return &source.Output{Value: json.RawMessage(`1`)}, nil
	}, &calls
}

func TestOnlyCallsThatMayBeRepeatedAreRetried(t *testing.T) {
	for _, c := range []struct {
		name      string
		guarantee toolroom.Guarantee
		key       string
		want      int64
	}{
		{"safe", toolroom.GuaranteeSafe, "", 3},
		{"keyed without a key", toolroom.GuaranteeKeyed, "", 1},
		{"never", toolroom.GuaranteeNever, "", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				handler, calls := failing(2)
				x := tool("flaky:it")
				x.Guarantee = c.guarantee
				b.add(x, handler)
				r := b.Run(t.Context(), toolroom.Call{Tool: "flaky:it", IdempotencyKey: c.key})
				if calls.Load() != c.want || r.OK() != (c.want == 3) || r.Usage.Attempts != int(c.want) {
					t.Errorf("called %d times, attempts %d, %s", calls.Load(), r.Usage.Attempts, r.Status)
				}
			})
		})
	}
}

func TestOnlyFaultsThatMayPassAreRetried(t *testing.T) {
	for code, want := range map[toolroom.Code]int64{toolroom.CodeUpstreamUnavailable: 3, toolroom.CodeExecutionFailed: 1, toolroom.CodeCircuitOpen: 1} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			var calls atomic.Int64
			x := tool("flaky:it")
			x.Guarantee = toolroom.GuaranteeSafe
			b.add(x, func(context.Context, *source.Request) (*source.Output, error) {
				calls.Add(1)
				e := toolroom.Errorf(code, "no")
				e.Retryable = code != toolroom.CodeExecutionFailed
				return nil, e
			})
			var retries []string
			ctx := run.WithSink(t.Context(), func(e toolroom.Event) {
				if e.Kind == toolroom.EventLog {
					retries = append(retries, e.Log.Level+" "+e.Log.Message)
				}
			})
			if r := b.Run(ctx, toolroom.Call{Tool: "flaky:it"}); toolroom.CodeOf(r.Err()) != code || calls.Load() != want || r.Usage.Attempts != int(want) || len(retries) != int(want-1) {
				t.Errorf("%v: %d calls, %q", r.Error, calls.Load(), retries)
			}
			for _, line := range retries {
				if line != "warning trying again after: no" {
					t.Errorf("the log says %q", line)
				}
			}
		})
	}
}

func TestAToolThatKeepsFailingIsLeftAloneAndTriedAgainLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		handler, calls := failing(5)
		b.add(tool("down:it"), handler)
		for range 5 {
			b.Run(t.Context(), toolroom.Call{Tool: "down:it"})
		}
		r := b.Run(t.Context(), toolroom.Call{Tool: "down:it"})
		if toolroom.CodeOf(r.Err()) != toolroom.CodeCircuitOpen || r.Effects != toolroom.EffectsNone || calls.Load() != 5 {
			t.Errorf("after five failures: %v, effects %s, %d calls", r.Error, r.Effects, calls.Load())
		}
		time.Sleep(2 * time.Second)
		if r := b.Run(t.Context(), toolroom.Call{Tool: "down:it"}); !r.OK() {
			t.Errorf("after the delay: %v", r.Error)
		}
	})
}

// TestATrialThatHangsHoldsTheCircuitForOneDelayOnly has a server stop answering,
// and be well again while a trial still waits.
func TestATrialThatHangsHoldsTheCircuitForOneDelayOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var calls atomic.Int64
		var well atomic.Bool
		slow := tool("slow:it")
		slow.DefaultTimeout = time.Second
		b.add(slow, func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			calls.Add(1)
			if well.Load() {
				return &source.Output{}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		do := func(timeout time.Duration) *toolroom.Result {
			return b.Run(t.Context(), toolroom.Call{Tool: "slow:it", Timeout: timeout})
		}
		for range 5 {
			do(time.Second)
		}
		time.Sleep(2 * time.Second)
		var all sync.WaitGroup
		defer all.Wait()
		for range 10 { // of which one is let through
			all.Go(func() { do(time.Minute) })
		}
		synctest.Wait()
		if n := calls.Load(); n != 6 {
			t.Errorf("%d calls reached a tool that is left alone", n-5)
		}
		well.Store(true)
		if r := do(0); toolroom.CodeOf(r.Err()) != toolroom.CodeCircuitOpen || r.Error.RetryAfter != 2*time.Second {
			t.Errorf("within the delay: %v", r.Error)
		}
		time.Sleep(2 * time.Second)
		for range 2 { // the second needs a closed circuit
			if r := do(0); !r.OK() {
				t.Errorf("after the delay: %v", r.Error)
			}
		}
	})
}

func TestATrialThatSentNothingDoesNotProlongTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := unavailable()
		b.add(tool("gone:it"), func(context.Context, *source.Request) (*source.Output, error) {
			if err == nil {
				return &source.Output{}, nil
			}
			return nil, err
		})
		do := func() toolroom.Code { return toolroom.CodeOf(b.Run(t.Context(), toolroom.Call{Tool: "gone:it"}).Err()) }
		for range 5 {
			do()
		}
		time.Sleep(2 * time.Second)
		unsent := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "no connection")
		unsent.Effects = toolroom.EffectsNone
		err = unsent
		if code := do(); code != toolroom.CodeUpstreamUnavailable {
			t.Errorf("the trial: %s", code)
		}
		err = nil
		if code := do(); code != "" {
			t.Errorf("when it can be reached: %s", code)
		}
	})
}

func TestACancelledTrialSaysNothingOfTheTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		err := unavailable()
		b.add(tool("down:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, err
		})
		for range 5 {
			b.Run(t.Context(), toolroom.Call{Tool: "down:it"})
		}
		time.Sleep(2 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.Run(ctx, toolroom.Call{Tool: "down:it"})
		b.Run(t.Context(), toolroom.Call{Tool: "down:it"}) // the trial, where the cancelled one did not get so far
		if r := b.Run(t.Context(), toolroom.Call{Tool: "down:it"}); toolroom.CodeOf(r.Err()) != toolroom.CodeCircuitOpen {
			t.Errorf("after a cancelled trial: %v", r.Error)
		}
	})
}

// endsAfter is a token that ends after it was checked so often.
type endsAfter struct{ checks int }

func (e *endsAfter) Check(context.Context, string) error {
	if e.checks--; e.checks < 0 {
		return toolroom.Errorf(toolroom.CodeUnauthenticated, "the token was revoked")
	}
	return nil
}

func TestACallWhoseTokenHasEndedDoesNotCloseTheCircuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *run.Options) { o.Tokens = &endsAfter{checks: 1} })
		var calls atomic.Int64
		b.add(tool("down:it"), func(context.Context, *source.Request) (*source.Output, error) {
			calls.Add(1)
			return nil, unavailable()
		})
		for range 5 {
			b.Run(t.Context(), toolroom.Call{Tool: "down:it"})
		}
		time.Sleep(2 * time.Second)
		ended := toolroom.Call{Tool: "down:it", Identity: toolroom.Identity{Subject: "ann", Token: "t1"}}
		if r := b.Run(t.Context(), ended); r.Error == nil || r.Error.Code != toolroom.CodeUnauthenticated {
			t.Fatalf("got %+v", r.Error)
		}
		before := calls.Load()
		if r := b.Run(t.Context(), toolroom.Call{Tool: "down:it"}); r.Error.Code != toolroom.CodeCircuitOpen || calls.Load() != before {
			t.Errorf("got %v, and the tool was called", r.Error)
		}
	})
}

func TestAFailedToolDoesNotOpenTheCircuit(t *testing.T) {
	b := newBench(t)
	b.add(tool("picky:it"), func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Failed: true}, nil
	})
	for range 10 {
		if r := b.Run(t.Context(), toolroom.Call{Tool: "picky:it"}); r.Error.Code != toolroom.CodeExecutionFailed {
			t.Fatalf("got %v", r.Error)
		}
	}
}

func TestOnlyReadOnlyToolsAreCachedPerIdentityAndNeverErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *run.Options) { o.Limits.Cache.Tools = []string{"*"} })
		yes := true
		var reads, writes atomic.Int64
		x := tool("read:it")
		x.Hints.ReadOnly = &yes
		b.add(x, func(context.Context, *source.Request) (*source.Output, error) {
			if reads.Add(1) == 1 {
				return nil, unavailable()
			}
			return &source.Output{Value: json.RawMessage(`1`)}, nil
		})
		b.add(tool("write:it"), func(context.Context, *source.Request) (*source.Output, error) {
			writes.Add(1)
			return &source.Output{}, nil
		})
		ada, bob := toolroom.Identity{Subject: "ada"}, toolroom.Identity{Subject: "bob"}
		call := func(tool, args string, who toolroom.Identity) *toolroom.Result {
			return b.Run(t.Context(), toolroom.Call{Tool: tool, Arguments: json.RawMessage(args), Identity: who})
		}
		call("read:it", `{"a":1,"b":2}`, ada) // fails once, is retried, and cached
		if r := call("read:it", `{"b":2, "a":1}`, ada); !r.Usage.Cached {
			t.Error("the same arguments in another order were not cached")
		}
		if r := call("read:it", `{"a":1,"b":2}`, bob); r.Usage.Cached {
			t.Error("another identity got the cached result")
		}
		if r := call("read:it", `{"a":1,"b":2}`, toolroom.Identity{Subject: "ada", Agent: "fast"}); r.Usage.Cached {
			t.Error("a narrowed caller got the cached result of its wider self")
		}
		test := toolroom.Call{Tool: "read:it", Arguments: json.RawMessage(`{"a":1,"b":2}`), Identity: ada, Environment: "test"}
		if r := b.Run(t.Context(), test); r.Usage.Cached {
			t.Error("a call in another environment got the cached result")
		}
		prod := test
		prod.Environment = "prod"
		if r := b.Run(t.Context(), prod); !r.Usage.Cached {
			t.Error("a call that names the default environment did not get the cached result")
		}
		time.Sleep(6 * time.Minute)
		if r := call("read:it", `{"a":1,"b":2}`, ada); r.Usage.Cached {
			t.Error("the cache outlived its time")
		}
		// What came when the call was cancelled may be a part.
		y := tool("read:part")
		y.Hints.ReadOnly = &yes
		ctx, cancel := context.WithCancel(t.Context())
		b.add(y, func(context.Context, *source.Request) (*source.Output, error) {
			cancel()
			return &source.Output{Value: json.RawMessage(`1`)}, nil
		})
		part := toolroom.Call{Tool: "read:part", Identity: ada}
		b.Run(ctx, part)
		if r := b.Run(t.Context(), part); r.Error != nil || r.Usage.Cached {
			t.Errorf("after a cancelled call: %v, cached %t", r.Error, r.Usage.Cached)
		}
		call("write:it", `{}`, ada)
		call("write:it", `{}`, ada)
		if writes.Load() != 2 {
			t.Errorf("a tool that writes was called %d times", writes.Load())
		}
	})
}

func TestTheRateLimitIsPerToolAndIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *run.Options) { o.Limits.Rate = run.RateLimits{PerSecond: 1, Burst: 2} })
		b.add(tool("a:it"), value(`1`))
		b.add(tool("b:it"), value(`1`))
		ada := toolroom.Identity{Subject: "ada"}
		var codes []toolroom.Code
		for _, call := range []toolroom.Call{{Tool: "a:it", Identity: ada}, {Tool: "a:it", Identity: ada}, {Tool: "a:it", Identity: ada}, {Tool: "b:it", Identity: ada}, {Tool: "a:it"}} {
			codes = append(codes, toolroom.CodeOf(b.Run(t.Context(), call).Err()))
		}
		for i, want := range []toolroom.Code{"", "", toolroom.CodeRateLimited, "", ""} {
			if codes[i] != want {
				t.Errorf("call %d: got %q, want %q", i, codes[i], want)
			}
		}
		time.Sleep(time.Second)
		if r := b.Run(t.Context(), toolroom.Call{Tool: "a:it", Identity: ada}); !r.OK() {
			t.Errorf("a second later: %v", r.Error)
		}
	})
}

func TestAToolRunsNoMoreCallsAtOnceThanItSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var now, most atomic.Int64
		x := tool("narrow:it")
		x.Concurrency = 2
		b.add(x, func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			time.Sleep(time.Second)
			return &source.Output{}, nil
		})
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				if r := b.Run(t.Context(), toolroom.Call{Tool: "narrow:it"}); !r.OK() {
					t.Errorf("got %v", r.Error)
				}
			})
		}
		wg.Wait()
		if most.Load() != 2 {
			t.Errorf("%d ran at once", most.Load())
		}
	})
}

func TestShortDeadlinesOfOneCallerDoNotOpenTheCircuitForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.add(tool("slow:it"), func(ctx context.Context, _ *source.Request) (*source.Output, error) {
			select {
			case <-time.After(time.Second):
				return &source.Output{}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		for range 20 {
			if r := b.Run(t.Context(), toolroom.Call{Tool: "slow:it", Timeout: time.Millisecond, Identity: toolroom.Identity{Subject: "eve"}}); toolroom.CodeOf(r.Err()) != toolroom.CodeTimeout {
				t.Fatal(r.Err())
			}
		}
		if r := b.Run(t.Context(), toolroom.Call{Tool: "slow:it", Identity: toolroom.Identity{Subject: "ann"}}); !r.OK() {
			t.Error(r.Error)
		}
	})
}
