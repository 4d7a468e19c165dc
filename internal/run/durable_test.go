package run_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// openStore opens the store at a path; several may be open at once, as by
// several processes.
func openStore(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func withStore(s *sqlite.Store, owner string, alive ...string) func(*run.Options) {
	return func(o *run.Options) {
		o.Keys, o.Jobs, o.Owner = s, s, owner
		o.OwnerAlive = func(other string) bool {
			for _, a := range alive {
				if a == other {
					return true
				}
			}
			return false
		}
	}
}

func counting(calls *atomic.Int64) func(context.Context, *source.Request) (*source.Output, error) {
	return func(context.Context, *source.Request) (*source.Output, error) {
		n := calls.Add(1)
		return &source.Output{Value: json.RawMessage(`{"n":` + string(rune('0'+n)) + `}`)}, nil
	}
}

func TestARepeatWithTheSameKeyGetsTheRecordedResult(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	var calls atomic.Int64
	first := newBench(t, withStore(openStore(t, path), "one"))
	first.add(tool("pay:it"), counting(&calls))
	call := toolroom.Call{Tool: "pay:it", Arguments: json.RawMessage(`{"a":1,"b":2}`), IdempotencyKey: "k"}
	a := first.Run(t.Context(), call)

	// The second room is the first one after a restart.
	second := newBench(t, withStore(openStore(t, path), "two"))
	second.add(tool("pay:it"), counting(&calls))
	call.Arguments = json.RawMessage(`{"b": 2, "a": 1}`)
	b := second.Run(t.Context(), call)
	if calls.Load() != 1 || string(a.Value) != string(b.Value) || a.Call == b.Call {
		t.Errorf("called %d times: %s, then %s", calls.Load(), a.Value, b.Value)
	}
	call.Arguments = json.RawMessage(`{"a":2}`)
	if r := second.Run(t.Context(), call); toolroom.CodeOf(r.Err()) != toolroom.CodeConflict || r.Effects != toolroom.EffectsNone {
		t.Errorf("other arguments under the same key: %v", r.Error)
	}
	call.Identity.Subject = "ada"
	if r := second.Run(t.Context(), call); !r.OK() || calls.Load() != 2 {
		t.Errorf("the key of another identity: %v", r.Error)
	}
}

func TestARepeatWaitsWhileTheFirstStillRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"))
	var calls atomic.Int64
	release, started := make(chan struct{}), make(chan struct{})
	b.add(tool("slow:it"), func(context.Context, *source.Request) (*source.Output, error) {
		if calls.Add(1) == 1 {
			close(started)
		}
		<-release
		return &source.Output{Value: json.RawMessage(`1`)}, nil
	})
	var wg sync.WaitGroup
	call := toolroom.Call{Tool: "slow:it", IdempotencyKey: "k"}
	run := func() {
		if r := b.Run(t.Context(), call); !r.OK() || string(r.Value) != "1" {
			t.Errorf("got %s %v", r.Status, r.Error)
		}
	}
	wg.Go(run)
	<-started
	for range 5 {
		wg.Go(run)
	}
	close(release)
	wg.Wait()
	if calls.Load() != 1 {
		t.Errorf("called %d times", calls.Load())
	}
}

func TestAKeyWhoseCallNeverBeganIsFreeAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, withStore(openStore(t, filepath.Join(t.TempDir(), "db")), "one"))
	x := tool("down:it")
	x.Guarantee = toolroom.GuaranteeKeyed
	failures := 1
	b.add(x, func(context.Context, *source.Request) (*source.Output, error) {
		if failures--; failures >= 0 {
			e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "not there")
			e.Retryable = false
			e.Effects = toolroom.EffectsNone
			return nil, e
		}
		return &source.Output{}, nil
	})
	call := toolroom.Call{Tool: "down:it", IdempotencyKey: "k"}
	if r := b.Run(t.Context(), call); r.OK() || r.Effects != toolroom.EffectsNone {
		t.Fatalf("got %s, effects %s", r.Status, r.Effects)
	}
	if r := b.Run(t.Context(), call); !r.OK() {
		t.Errorf("the repeat: %v", r.Error)
	}
}

func TestAKeyOfADeadProcessIsTakenOverOnlyWhereTheToolMayRunTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		guarantee toolroom.Guarantee
		code      toolroom.Code
	}{{toolroom.GuaranteeNever, toolroom.CodeConflict}, {toolroom.GuaranteeKeyed, ""}, {toolroom.GuaranteeSafe, ""}} {
		store := openStore(t, filepath.Join(t.TempDir(), "db"))
		b := newBench(t, withStore(store, "two"))
		x := tool("pay:it")
		x.Guarantee = c.guarantee
		b.add(x, value(`1`))
		now := time.Now()
		_, claimed, err := store.ClaimKey(t.Context(), run.KeyRecord{
			Identity: "local", Key: "k", Tool: "pay:it", Owner: "dead", Call: "call_1", Created: now, Expires: now.Add(time.Hour),
			ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
		}, now)
		if err != nil || !claimed {
			t.Fatal(err)
		}
		r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"})
		if toolroom.CodeOf(r.Err()) != c.code {
			t.Errorf("%s: got %v", c.guarantee, r.Error)
		}
	}
}

// racedKeys is a store in which another repeat takes a key just before it is released.
type racedKeys struct {
	run.KeyStore
	raced atomic.Bool
}

func (k *racedKeys) ReleaseKey(ctx context.Context, identity, key, call string) error {
	if k.raced.CompareAndSwap(false, true) {
		if err := k.KeyStore.ReleaseKey(ctx, identity, key, call); err != nil {
			return err
		}
		now := time.Now()
		_, claimed, err := k.ClaimKey(ctx, run.KeyRecord{
			Identity: identity, Key: key, Tool: "pay:it", Owner: "dead too", Call: "call_2", Created: now, Expires: now.Add(time.Hour),
			ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
		}, now)
		if err != nil || !claimed {
			return fmt.Errorf("the other repeat: %v, %w", claimed, err)
		}
	}
	return k.KeyStore.ReleaseKey(ctx, identity, key, call)
}

func TestTwoRepeatsOfADeadCallDoNotMeetInAConflict(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, withStore(store, "three"), func(o *run.Options) { o.Keys = &racedKeys{KeyStore: store} })
	x := tool("pay:it")
	x.Guarantee = toolroom.GuaranteeKeyed
	b.add(x, value(`1`))
	now := time.Now()
	_, claimed, err := store.ClaimKey(t.Context(), run.KeyRecord{
		Identity: "local", Key: "k", Tool: "pay:it", Owner: "dead", Call: "call_1", Created: now, Expires: now.Add(time.Hour),
		ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
	}, now)
	if err != nil || !claimed {
		t.Fatal(err)
	}
	if r := b.Run(t.Context(), toolroom.Call{Tool: "pay:it", IdempotencyKey: "k"}); !r.OK() {
		t.Errorf("got %v", r.Error)
	}
}

func TestACallThatDiedWhileItsQuestionWasOpenIsMadeAgainAndOneThatServedIsNot(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		used bool
		code toolroom.Code
		ran  int64
	}{
		{"its question was open", false, "", 1},
		{"its approval was used", true, toolroom.CodeConflict, 0},
	} {
		store := openStore(t, filepath.Join(t.TempDir(), "db"))
		var calls atomic.Int64
		b := newBench(t, withStore(store, "two"), confirmAll(t, store))
		x := tool("pay:it")
		x.Guarantee = toolroom.GuaranteeNever
		b.add(x, counting(&calls))

		// Another process asked and died.
		now := time.Now()
		dead := newBench(t, confirmAll(t, store))
		dead.add(x, counting(&calls))
		r := dead.Run(t.Context(), toolroom.Call{ID: "call_1", Tool: "pay:it", NoWait: true})
		question := r.Error.Approval
		dead.Run(t.Context(), toolroom.Call{ID: "call_2", Tool: "pay:it", Arguments: json.RawMessage(`{"n":1}`), NoWait: true}) // a later question of another call
		_, claimed, err := store.ClaimKey(t.Context(), run.KeyRecord{
			Identity: "local", Key: "k", Tool: "pay:it", Owner: "dead", Call: "call_1", Created: now, Expires: now.Add(time.Hour),
			ArgumentsHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", // of {}
		}, now)
		if err != nil || !claimed {
			t.Fatal(err)
		}
		if _, err := b.Approvals.Answer(t.Context(), question, toolroom.Answer{Approve: true, By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if c.used {
			if err := b.Approvals.Use(t.Context(), question); err != nil {
				t.Fatal(err)
			}
		}

		r = b.Run(t.Context(), toolroom.Call{ID: "call_1", Tool: "pay:it", IdempotencyKey: "k", NoWait: true})
		if toolroom.CodeOf(r.Err()) != c.code || calls.Load() != c.ran {
			t.Errorf("%s: got %v, and the tool ran %d times", c.name, r.Error, calls.Load())
		}
	}
}

func TestASubmittedCallIsRunOnceAlsoByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	var calls atomic.Int64
	submitter := newBench(t, withStore(openStore(t, path), "one"))
	submitter.add(tool("work:it"), counting(&calls))
	job, err := submitter.Submit(t.Context(), toolroom.Call{Tool: "work:it"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for _, owner := range []string{"two", "three"} {
		b := newBench(t, withStore(openStore(t, path), owner, "two", "three"))
		b.add(tool("work:it"), counting(&calls))
		w := run.NewWorker(b.Runner, run.WorkerOptions{Poll: 5 * time.Millisecond})
		workers.Go(func() { w.Run(ctx) })
	}
	done := poll(t, func() (*run.Job, bool) {
		j, err := submitter.Jobs.Job(t.Context(), job.ID)
		return j, err == nil && j.State == toolroom.JobDone
	})
	cancel()
	workers.Wait()
	if calls.Load() != 1 || !done.Result.OK() || done.Result.Call != job.ID {
		t.Errorf("called %d times: %+v", calls.Load(), done.Result)
	}
}

// poll waits until get has what it looks for.
func poll[T any](t *testing.T, get func() (T, bool)) T {
	t.Helper()
	for {
		if v, ok := get(); ok {
			return v
		}
		select {
		case <-t.Context().Done():
			t.Fatal("it did not come")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func confirmAll(t *testing.T, store *sqlite.Store) func(*run.Options) {
	return func(o *run.Options) {
		layers, err := policy.Compile(policy.Config{Rules: policy.Rules{Confirm: []string{"*"}}})
		if err != nil {
			t.Fatal(err)
		}
		o.Policy, o.Approvals = layers, approval.New(store, approval.Options{Poll: 5 * time.Millisecond})
	}
}

func TestACallWaitsForAPersonAndTheWaitDoesNotCountAgainstTheDeadline(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, confirmAll(t, store))
	b.add(tool("rm:it"), value(`"gone"`))
	go func() {
		open := poll(t, func() ([]*toolroom.Approval, bool) {
			list, err := b.Approvals.List(t.Context(), toolroom.ApprovalPending)
			return list, err == nil && len(list) == 1
		})
		time.Sleep(50 * time.Millisecond) // longer than the call's whole time
		if _, err := b.Approvals.Answer(t.Context(), open[0].ID, toolroom.Answer{Approve: true, By: "ada"}); err != nil {
			t.Error(err)
		}
	}()
	r := b.Run(t.Context(), toolroom.Call{Tool: "rm:it", Timeout: 20 * time.Millisecond})
	if !r.OK() || r.Usage.Wait < 50*time.Millisecond {
		t.Errorf("got %s after waiting %s: %v", r.Status, r.Usage.Wait, r.Error)
	}
	if kept := b.receipts.last(); kept.Approval == "" || kept.Rule != `tools.confirm[0]: "*"` {
		t.Errorf("the receipt has approval %q by rule %q", kept.Approval, kept.Rule)
	}
}

func TestAnApprovalServesTheVeryCallOnceAlsoAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	var calls atomic.Int64
	first := newBench(t, confirmAll(t, openStore(t, path)))
	first.add(tool("rm:it"), counting(&calls))
	call := toolroom.Call{Tool: "rm:it", Arguments: json.RawMessage(`{"path":"a"}`), NoWait: true}
	r := first.Run(t.Context(), call)
	id := r.Error.Approval
	if r.Error.Code != toolroom.CodeApprovalRequired || r.Status != toolroom.StatusDenied || id == "" {
		t.Fatalf("got %+v", r.Error)
	}

	second := newBench(t, confirmAll(t, openStore(t, path)))
	second.add(tool("rm:it"), counting(&calls))
	if _, err := second.Approvals.Answer(t.Context(), id, toolroom.Answer{Approve: true, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why  string
		call toolroom.Call
		ok   bool
	}{
		{"other arguments", toolroom.Call{Tool: "rm:it", Arguments: json.RawMessage(`{"path":"b"}`), NoWait: true}, false},
		{"another identity", toolroom.Call{Tool: "rm:it", Arguments: call.Arguments, Identity: toolroom.Identity{Subject: "eve"}, NoWait: true}, false},
		{"the very call", call, true},
		{"the very call once more", call, false},
	} {
		if r := second.Run(t.Context(), c.call); r.OK() != c.ok {
			t.Errorf("%s: %s %v", c.why, r.Status, r.Error)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("the tool ran %d times", calls.Load())
	}
}

func TestARefusalAfterAnApprovalDoesNotUseItUp(t *testing.T) {
	t.Parallel()
	store := openStore(t, filepath.Join(t.TempDir(), "db"))
	b := newBench(t, confirmAll(t, store), func(o *run.Options) { o.MustRecord = func(*toolroom.Tool) bool { return true } })
	var calls atomic.Int64
	b.add(tool("rm:it"), counting(&calls))
	call := toolroom.Call{Tool: "rm:it", NoWait: true}
	asked := b.Run(t.Context(), call)
	if _, err := b.Approvals.Answer(t.Context(), asked.Error.Approval, toolroom.Answer{Approve: true, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	b.receipts.unpromised = toolroom.Errorf(toolroom.CodeInternal, "the disk is full")
	if r := b.Run(t.Context(), call); r.OK() || r.Effects != toolroom.EffectsNone {
		t.Fatalf("got %s, effects %s: %v", r.Status, r.Effects, r.Error)
	}
	b.receipts.unpromised = nil
	if r := b.Run(t.Context(), call); !r.OK() || calls.Load() != 1 {
		t.Errorf("the person is asked again: %v after %d calls", r.Error, calls.Load())
	}
	if r := b.Run(t.Context(), call); r.OK() {
		t.Error("one answer served two calls")
	}
}

func TestADeclinedCallNeverRuns(t *testing.T) {
	t.Parallel()
	b := newBench(t, confirmAll(t, openStore(t, filepath.Join(t.TempDir(), "db"))))
	var calls atomic.Int64
	b.add(tool("rm:it"), counting(&calls))
	go func() {
		open := poll(t, func() ([]*toolroom.Approval, bool) {
			list, err := b.Approvals.List(t.Context(), toolroom.ApprovalPending)
			return list, err == nil && len(list) == 1
		})
		_, _ = b.Approvals.Answer(t.Context(), open[0].ID, toolroom.Answer{By: "ada", Comment: "too risky"})
	}()
	r := b.Run(t.Context(), toolroom.Call{Tool: "rm:it"})
	if r.Error == nil || r.Error.Code != toolroom.CodeApprovalDeclined || r.Error.Phase != toolroom.PhaseApproval || calls.Load() != 0 {
		t.Errorf("got %+v after %d calls", r.Error, calls.Load())
	}
}

func withArtifacts(t *testing.T, store *sqlite.Store, each int64) (func(*run.Options), *artifact.Store) {
	t.Helper()
	files, err := artifact.Open(t.Context(), t.TempDir(), store, artifact.Options{Results: artifact.Limits{Each: each}})
	if err != nil {
		t.Fatal(err)
	}
	return func(o *run.Options) { o.Artifacts = files }, files
}

func TestALongTextIsCutAtRunesWithTheExactNumberHiddenAndTheWholeKept(t *testing.T) {
	t.Parallel()
	option, files := withArtifacts(t, openStore(t, filepath.Join(t.TempDir(), "db")), 0)
	b := newBench(t, option)
	whole := strings.Repeat("żółw ", 20_000) // runes of two bytes
	b.add(tool("long:text"), func(context.Context, *source.Request) (*source.Output, error) {
		return &source.Output{Content: []toolroom.Content{toolroom.TextContent(whole)}}, nil
	})
	r := b.Run(t.Context(), toolroom.Call{Tool: "long:text"})
	if !r.OK() || r.Hidden == nil {
		t.Fatalf("got %s, hidden %v, %v", r.Status, r.Hidden, r.Error)
	}
	shown := r.Text()
	head, rest, _ := strings.Cut(shown, "\n[Output truncated - ")
	_, tail, _ := strings.Cut(rest, "]\n")
	if int64(len(head)+len(tail))+r.Hidden.Bytes != int64(len(whole)) || !strings.HasPrefix(whole, head) || !strings.HasSuffix(whole, tail) {
		t.Errorf("%d bytes at the head, %d at the tail, %d hidden of %d", len(head), len(tail), r.Hidden.Bytes, len(whole))
	}
	if !utf8.ValidString(shown) || len(head)+len(tail) > 51_200 {
		t.Errorf("what is shown has %d bytes, valid %v", len(head)+len(tail), utf8.ValidString(shown))
	}
	page, err := files.Read(t.Context(), "local", r.Hidden.Handle, artifact.ReadOptions{Offset: int64(len(head)), Limit: 10})
	if err != nil || !strings.HasPrefix(whole[len(head):], page.Text) || page.Text == "" {
		t.Errorf("reading on gave %+v, %v", page, err)
	}
	if err := r.Decode(new(string)); err == nil || !strings.Contains(err.Error(), r.Hidden.Handle) {
		t.Errorf("a cut value was decoded: %v", err)
	}
	all := b.Run(t.Context(), toolroom.Call{Tool: "long:text", MaxOutput: -1})
	if all.Hidden != nil || all.Text() != whole {
		t.Error("a caller who asks for all did not get all")
	}
}
