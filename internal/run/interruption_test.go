package run_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
)

// TestACallThatAKilledProcessHadBegunIsUnknownWhateverItsEndIs has a process die
// after it claimed a job and its key, and another one end the job.
func TestACallThatAKilledProcessHadBegunIsUnknownWhateverItsEndIs(t *testing.T) {
	t.Parallel()
	never := tool("pay:it")
	never.Guarantee = toolroom.GuaranteeNever
	yes := true
	reads := tool("pay:it")
	reads.Hints = toolroom.Hints{ReadOnly: &yes}
	deny, err := policy.Compile(policy.Config{Rules: policy.Rules{Deny: []string{"*"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		tool    *toolroom.Tool
		policy  func(*run.Options)
		key     string // that a person set
		begun   bool   // the dead process had claimed the key
		cancel  bool
		code    toolroom.Code
		effects toolroom.Effects
		calls   int64
	}{
		"it may run once":                       {tool: &never, begun: true, code: toolroom.CodeConflict, effects: toolroom.EffectsUnknown},
		"it may run once, with a key":           {tool: &never, key: "mine", begun: true, code: toolroom.CodeConflict, effects: toolroom.EffectsUnknown},
		"its tool is gone":                      {begun: true, code: toolroom.CodeToolNotFound, effects: toolroom.EffectsUnknown},
		"it is denied now":                      {tool: &never, begun: true, policy: func(o *run.Options) { o.Policy = deny }, code: toolroom.CodeDenied, effects: toolroom.EffectsUnknown},
		"it was cancelled meanwhile":            {tool: &never, begun: true, cancel: true, code: toolroom.CodeCancelled, effects: toolroom.EffectsUnknown},
		"it only reads":                         {tool: &reads, begun: true, effects: toolroom.EffectsNone, calls: 1},
		"it had not begun":                      {tool: &never, effects: toolroom.EffectsDone, calls: 1},
		"it had not begun and its tool is gone": {code: toolroom.CodeToolNotFound, effects: toolroom.EffectsNone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t, filepath.Join(t.TempDir(), "db"))
			var calls atomic.Int64
			configure := []func(*run.Options){withStore(store, "two")}
			if c.policy != nil {
				configure = append(configure, c.policy)
			}
			b := newBench(t, configure...)
			if c.tool != nil {
				b.add(*c.tool, counting(&calls))
			}
			job, err := b.Submit(t.Context(), toolroom.Call{Tool: "pay:it", IdempotencyKey: c.key})
			if err != nil {
				t.Fatal(err)
			}
			past := time.Now().Add(-time.Minute)
			if got, err := store.ClaimJob(t.Context(), past.Add(-time.Minute), past); err != nil || got == nil {
				t.Fatal(got, err)
			}
			if c.begun {
				key := c.key
				if key == "" {
					key = "job:" + job.ID
				}
				_, claimed, err := store.ClaimKey(t.Context(), run.KeyRecord{
					Identity: "local", Key: key, Tool: "pay:it", Owner: "dead", Call: job.ID, Created: past, Expires: time.Now().Add(time.Hour),
					ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
				}, past)
				if err != nil || !claimed {
					t.Fatal(err)
				}
			}
			if c.cancel {
				if err := store.CancelJob(t.Context(), job.ID); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			var workers sync.WaitGroup
			w := run.NewWorker(b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond})
			workers.Go(func() { w.Run(ctx) })
			done := poll(t, func() (*run.Job, bool) {
				j, err := store.Job(t.Context(), job.ID)
				return j, err == nil && j.State == toolroom.JobDone
			})
			cancel()
			workers.Wait()
			r := done.Result
			if toolroom.CodeOf(r.Err()) != c.code || r.Effects != c.effects || calls.Load() != c.calls {
				t.Errorf("got %v with effects %s after %d calls, want %s with %s after %d", r.Error, r.Effects, calls.Load(), c.code, c.effects, c.calls)
			}
			if last := b.receipts.list[len(b.receipts.list)-1]; last.Effects != c.effects {
				t.Errorf("the receipt says %s", last.Effects)
			}
			if c.effects != toolroom.EffectsUnknown {
				return
			}
			text := strings.ReplaceAll(r.Error.Message+r.Error.Hint, job.ID, "") // an ID may contain any word
			if r.Error.Effects != toolroom.EffectsUnknown || !strings.Contains(text, "unknown") || strings.Contains(text, "key") != (c.key != "") || strings.Contains(text, "job:") {
				t.Errorf("the error is %+v", r.Error)
			}
		})
	}
}

// endedKeys is a store whose claims fail because the context of the call has ended.
type endedKeys struct {
	run.KeyStore
	why error
}

func (k endedKeys) ClaimKey(context.Context, run.KeyRecord, time.Time) (run.KeyRecord, bool, error) {
	return run.KeyRecord{}, false, fmt.Errorf("claim an idempotency key: %w", k.why)
}

// TestACallThatEndsBeforeItsToolSaysSo ends calls at a stage that fails with an error of
// its own, which says nothing to a caller.
func TestACallThatEndsBeforeItsToolSaysSo(t *testing.T) {
	t.Parallel()
	for why, c := range map[error]struct {
		code toolroom.Code
		want string
	}{
		context.Canceled:         {toolroom.CodeCancelled, "pay:it was cancelled before it ran"},
		context.DeadlineExceeded: {toolroom.CodeTimeout, "pay:it timed out before it ran"},
	} {
		store := openStore(t, filepath.Join(t.TempDir(), "db"))
		b := newBench(t, withStore(store, "one"), func(o *run.Options) { o.Keys = endedKeys{store, why} })
		b.add(tool("pay:it"), value(`1`))
		r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"})
		if r.Error == nil || r.Error.Code != c.code || r.Error.Message != c.want || r.Effects != toolroom.EffectsNone {
			t.Errorf("%v: got %+v, effects %q", why, r.Error, r.Effects)
		}
	}
}
