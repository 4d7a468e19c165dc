package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// takeKey makes a call of a dead or another process hold the key k, with no arguments.
func takeKey(t *testing.T, store *sqlite.Store, owner, call string) {
	t.Helper()
	now := time.Now()
	_, claimed, err := store.ClaimKey(t.Context(), run.KeyRecord{
		Identity: "local", Key: "k", Tool: "pay:it", Owner: owner, Call: call, Created: now, Expires: now.Add(time.Hour),
		ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
	}, now)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
}

func TestARepeatGetsWhatTheFirstCallGot(t *testing.T) {
	t.Parallel()
	unknown, none := toolroom.Errorf(toolroom.CodeUpstreamError, "lost"), toolroom.Errorf(toolroom.CodeUpstreamError, "not sent")
	none.Effects = toolroom.EffectsNone
	for name, c := range map[string]struct {
		out   *source.Output
		err   error
		calls int64 // that two calls with one key make
	}{
		"it worked":              {&source.Output{Value: json.RawMessage(`1`), Raw: json.RawMessage(`{"sent":1}`)}, nil, 1},
		"it failed with effects": {&source.Output{Raw: json.RawMessage(`{"sent":1}`)}, unknown, 1},
		"it did nothing":         {nil, none, 2},
	} {
		b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"))
		var calls atomic.Int64
		pay := tool("pay:it")
		pay.Guarantee = toolroom.GuaranteeNever
		b.add(pay, func(context.Context, *source.Request) (*source.Output, error) {
			calls.Add(1)
			return c.out, c.err
		})
		call := toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"}
		first, second := b.Run(t.Context(), call), b.Run(t.Context(), call)
		if calls.Load() != c.calls || toolroom.CodeOf(first.Err()) != toolroom.CodeOf(second.Err()) || string(first.Value) != string(second.Value) || string(first.Raw) != string(second.Raw) {
			t.Errorf("%s: %d calls, %+v, then %+v", name, calls.Load(), first, second)
		}
		if first.Replayed || second.Replayed != (c.calls == 1) || second.Call == first.Call || first.Effects != second.Effects {
			t.Errorf("%s: replayed %v, then %v, with effects %s, then %s", name, first.Replayed, second.Replayed, first.Effects, second.Effects)
		}
	}
}

func TestAKeyThatAnotherProcessHoldsIsWaitedFor(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "one", "other"))
	var calls atomic.Int64
	b.add(tool("pay:it"), counting(&calls))
	takeKey(t, store, "other", "call_1")
	call := toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"}
	gone, cancel := context.WithCancel(t.Context())
	b.OwnerAlive = func(owner string) bool { cancel(); return owner == "other" }
	if e := b.Run(gone, call).Error; e == nil || e.Code != toolroom.CodeCancelled {
		t.Errorf("a caller that gives up: %v", e)
	}
	b.OwnerAlive = func(string) bool {
		if err := store.FinishKey(t.Context(), "local", "k", "call_1", json.RawMessage(`{"status":"ok","value":7}`)); err != nil {
			t.Error(err)
		}
		return true
	}
	if r := b.Run(t.Context(), call); !r.OK() || string(r.Value) != "7" || !r.Replayed || calls.Load() != 0 {
		t.Errorf("when the other has ended: %+v, %d calls", r, calls.Load())
	}
}

func TestAKeyOfACallThatItsSourceResumesIsItsOwn(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]toolroom.Code{"call_1": "", "call_2": toolroom.CodeConflict} {
		store := openStore(t, filepath.Join(t.TempDir(), "db"))
		b := newBench(t, withStore(store, "one"))
		pay := tool("pay:it")
		pay.Guarantee = toolroom.GuaranteeNever
		src := &resuming{id: "call_1"}
		if err := b.Catalog.SetProvider("pay", src, []toolroom.Tool{pay}); err != nil {
			t.Fatal(err)
		}
		takeKey(t, store, "dead", "call_1")
		r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", ID: id, IdempotencyKey: "k"})
		if toolroom.CodeOf(r.Err()) != want || want != "" && !strings.Contains(r.Error.Message, `call call_1, the first with idempotency key "k", ended without a record`) {
			t.Errorf("%s: %v", id, r.Error)
		}
	}
}

func TestTheKeyOfADeadCallIsTakenAsActedWhereNobodyCouldBeAsked(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "two"), confirmAll(t, store), func(o *run.Options) { o.Approvals = nil })
	pay := tool("pay:it")
	pay.Guarantee = toolroom.GuaranteeNever
	b.add(pay, value(`1`))
	takeKey(t, store, "dead", "call_1")
	if r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"}); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict {
		t.Errorf("got %v", r.Error)
	}
}

// forgetful is a store whose process is killed before it stores a result.
type forgetful struct{ run.KeyStore }

func (forgetful) FinishKey(context.Context, string, string, string, json.RawMessage) error {
	return nil
}

func TestAQuestionOfAnEarlierAttemptDoesNotProveThatTheNextHasNotBegun(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "one"), confirmAll(t, store))
	b.Keys = forgetful{store}
	var calls atomic.Int64
	pay := tool("pay:it")
	pay.Guarantee = toolroom.GuaranteeNever
	b.add(pay, counting(&calls))
	call := toolroom.Call{ID: "call_1", Tool: "pay:it", IdempotencyKey: "k", NoWait: true}
	asked := b.Run(t.Context(), call)
	if toolroom.CodeOf(asked.Err()) != toolroom.CodeApprovalRequired {
		t.Fatal(asked.Error)
	}
	other := call
	other.ID, other.IdempotencyKey, other.Arguments = "call_0", "", json.RawMessage(`{"a":1}`)
	wide, err := b.Approvals.Answer(t.Context(), b.Run(t.Context(), other).Error.Approval, toolroom.Answer{Approve: true, Scope: toolroom.ScopeAlways})
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), call); !r.OK() || calls.Load() != 1 {
		t.Fatalf("by a grant: %v", r.Error) // and its process is killed
	}
	grants, err := b.Approvals.Grants(t.Context())
	if err != nil || len(grants) != 1 || grants[0].Approval != wide.ID {
		t.Fatal(grants, err)
	}
	if err := b.Approvals.RemoveGrant(t.Context(), grants[0].ID); err != nil {
		t.Fatal(err)
	}
	call.ID = "call_2"
	if r := b.Run(t.Context(), call); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict {
		t.Errorf("a repeat: %v", r.Error)
	}
}

func TestACallThatIsCutOffTwiceWhileItWaitsHasNotBegun(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "two"), confirmAll(t, store))
	b.Keys = kept{store, new(int)}
	var calls atomic.Int64
	pay := tool("pay:it")
	pay.Guarantee = toolroom.GuaranteeNever
	b.add(pay, counting(&calls))
	takeKey(t, store, "dead", "call_1")
	call := toolroom.Call{ID: "call_1", Tool: "pay:it", IdempotencyKey: "k", NoWait: true}
	free := call
	free.IdempotencyKey = ""
	question := b.Run(t.Context(), free).Error.Approval // the first attempt asked
	for range 2 {
		if r := b.Run(t.Context(), call); toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired || r.Error.Approval != question {
			t.Fatalf("%+v", r.Error)
		}
	}
	if _, err := b.Approvals.Answer(t.Context(), question, toolroom.Answer{Approve: true}); err != nil {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), call); !r.OK() || calls.Load() != 1 {
		t.Errorf("%v, called %d times", r.Error, calls.Load())
	}
}

// kept is a store whose process is killed before it releases a key at the end of a call.
// Each call has freed the key of the call before, with the first of its two releases.
type kept struct {
	run.KeyStore
	releases *int
}

func (k kept) ReleaseKey(ctx context.Context, identity, key, call string) error {
	if *k.releases++; *k.releases%2 == 0 {
		return nil
	}
	return k.KeyStore.ReleaseKey(ctx, identity, key, call)
}

// resuming is a source that resumes one call.
type resuming struct {
	isolator
	id string
}

func (r *resuming) Resumes(_ context.Context, call string) bool { return call == r.id }

func TestACallThatTheSourceResumesNeedsTheApprovalThatItHad(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, confirmAll(t, store))
	src := &resuming{id: "call_1"}
	if err := b.Catalog.SetProvider("pay", src, []toolroom.Tool{tool("pay:it")}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id, approval string
		code         toolroom.Code
	}{
		{"call_1", "apr_1", ""},
		{"call_1", "", toolroom.CodeApprovalRequired},
		{"call_2", "apr_1", toolroom.CodeApprovalRequired},
	} {
		r := b.Run(t.Context(), toolroom.Call{ID: c.id, Tool: "pay:it", Approval: c.approval, NoWait: true})
		if toolroom.CodeOf(r.Err()) != c.code {
			t.Errorf("%s with the approval %q: %v", c.id, c.approval, r.Error)
		}
	}
}

func TestAKeyIsOfATypeOfCallerAndOfAnEnvironment(t *testing.T) {
	t.Parallel()
	b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"))
	var calls atomic.Int64
	b.add(tool("pay:it"), counting(&calls))
	b.add(tool("pay:other"), counting(&calls))
	call := toolroom.Call{Tool: "pay:it", IdempotencyKey: "k", Identity: toolroom.Identity{Subject: "ann"}}
	b.Run(t.Context(), call)
	for name, c := range map[string]struct {
		change func(*toolroom.Call)
		says   string
	}{
		"the same":            {func(*toolroom.Call) {}, ""},
		"in its environment":  {func(c *toolroom.Call) { c.Environment = run.DefaultEnvironment }, ""},
		"another environment": {func(c *toolroom.Call) { c.Environment = "test" }, "already used for another call of pay:it"},
		"another tool":        {func(c *toolroom.Call) { c.Tool = "pay:other" }, "already used for another call of pay:it"},
		"other arguments":     {func(c *toolroom.Call) { c.Arguments = json.RawMessage(`{"a":1}`) }, "already used for another call of pay:it"},
		"an agent of hers":    {func(c *toolroom.Call) { c.Identity.Agent = "fast" }, "with other rights"},
	} {
		repeat := call
		c.change(&repeat)
		r := b.Run(t.Context(), repeat)
		if c.says == "" && !r.Replayed || c.says != "" && (toolroom.CodeOf(r.Err()) != toolroom.CodeConflict || !strings.Contains(r.Error.Message, c.says) || !strings.Contains(r.Error.Hint, "use a new key")) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("it ran %d times", calls.Load())
	}
	b.Keys = nil
	if r := b.Run(t.Context(), call); toolroom.CodeOf(r.Err()) != toolroom.CodeUnsupported {
		t.Errorf("without a store: %v", r.Error)
	}
}
