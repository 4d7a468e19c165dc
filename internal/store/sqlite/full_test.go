package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

// full is a runner whose database cannot grow: SQLite then fails as it does on
// a full disk (SQLITE_FULL).
type full struct {
	store    *Store
	recorder *receipt.Recorder
	runner   *run.Runner
	ran      atomic.Int64
}

func newFull(t *testing.T, must bool) *full {
	t.Helper()
	f := &full{}
	var err error
	if f.store, err = Open(t.Context(), filepath.Join(t.TempDir(), "db"), Options{}); err != nil {
		t.Fatal(err)
	}
	f.recorder = receipt.NewRecorder(f.store, receipt.RecorderOptions{Retry: time.Millisecond, MaxRetry: 5 * time.Millisecond})
	t.Cleanup(func() {
		f.grow(t, 1<<30)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := f.recorder.Close(ctx); err != nil {
			t.Error(err)
		}
		f.store.Close()
	})
	f.runner = run.New(run.Options{
		Catalog: catalog.New(catalog.Options{}), Receipts: f.recorder, Owner: "me",
		MustRecord: func(*toolroom.Tool) bool { return must },
	})
	funcs := &gofunc.Source{}
	tool := toolroom.Tool{ID: toolroom.MustParseID("pay:out"), Source: toolroom.SourceGo}
	funcs.Put(gofunc.Func{Tool: tool, Handler: func(context.Context, *source.Request) (*source.Output, error) {
		f.ran.Add(1)
		return &source.Output{}, nil
	}})
	if err := f.runner.Catalog.Register("go", funcs, tool); err != nil {
		t.Fatal(err)
	}
	return f
}

// grow lets the file grow by a number of pages.
func (f *full) grow(t *testing.T, more int) {
	t.Helper()
	var pages int
	if err := f.store.writer.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Error(err)
	}
	if err := f.store.writer.QueryRow(fmt.Sprintf("PRAGMA max_page_count = %d", pages+more)).Scan(&pages); err != nil {
		t.Error(err)
	}
}

func (f *full) pay(t *testing.T) *toolroom.Result {
	t.Helper()
	big := json.RawMessage(`{"to":"` + strings.Repeat("x", 20_000) + `"}`) // some pages of its own
	return f.runner.Run(t.Context(), toolroom.Call{Tool: "pay:out", Arguments: big})
}

func TestAFullDiskStopsCallsAndLosesNoRecord(t *testing.T) {
	t.Parallel()
	f := newFull(t, false)
	if r := f.pay(t); !r.OK() {
		t.Fatal(r.Error)
	}
	if err := f.recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.grow(t, 0)
	// The full disk has not been noticed yet: this call runs, and its receipt waits.
	if r := f.pay(t); !r.OK() {
		t.Fatal(r.Error)
	}
	if err := f.recorder.Flush(t.Context()); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Fatalf("Flush = %v", err)
	}
	for range 3 {
		r := f.pay(t)
		if r.OK() || r.Error.Phase != toolroom.PhaseReceipt || !r.Error.Retryable || r.Effects != toolroom.EffectsNone {
			t.Errorf("on a full disk: %s %v", r.Status, r.Error)
		}
	}
	if f.ran.Load() != 2 {
		t.Errorf("the tool ran %d times", f.ran.Load())
	}
	f.grow(t, 1000)
	for f.recorder.Ready() != nil {
		time.Sleep(time.Millisecond)
	}
	if r := f.pay(t); !r.OK() {
		t.Errorf("with room again: %v", r.Error)
	}
	if err := f.recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Three calls ran, and three were refused.
	if n, err := f.store.VerifyReceipts(t.Context(), nil); n != 6 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
}

func TestACallThatMustBeRecordedDoesNotRunOnAFullDisk(t *testing.T) {
	t.Parallel()
	f := newFull(t, true)
	if r := f.pay(t); !r.OK() {
		t.Fatal(r.Error)
	}
	if err := f.recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := f.store.reader.QueryRow("SELECT count(*) FROM intents").Scan(&left); err != nil || left != 0 {
		t.Errorf("%d intents are left of a call that has its receipt, %v", left, err)
	}
	// First use up the free pages of deleted intents.
	f.grow(t, 0)
	for i := 0; ; i++ {
		r := f.pay(t)
		if r.OK() {
			if i > 100 {
				t.Fatal("the disk is never full")
			}
			continue
		}
		if r.Error.Phase != toolroom.PhaseReceipt || r.Effects != toolroom.EffectsNone {
			t.Errorf("%s %v", r.Status, r.Error)
		}
		break
	}
	ran := f.ran.Load()
	f.grow(t, 1000)
	if err := f.recorder.Flush(t.Context()); err != nil {
		for f.recorder.Ready() != nil {
			time.Sleep(time.Millisecond)
		}
	}
	list, err := f.store.Receipts(t.Context(), toolroom.ReceiptQuery{Status: toolroom.StatusOK})
	if err != nil || int64(len(list)) != ran {
		t.Errorf("it ran %d times, and %d receipts say so, %v", ran, len(list), err)
	}
}

func TestACallWhoseProcessDiedIsRecordedAfterwards(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	died, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	intend := func(call, owner string) {
		r := &toolroom.Receipt{ID: call, Tool: "pay:out", Arguments: json.RawMessage(`{"to":"bob"}`), Started: time.Now()}
		if err := died.IntendReceipt(t.Context(), r, owner); err != nil {
			t.Fatal(err)
		}
	}
	intend("lost", "dead")
	intend("running", "alive")
	// Another process resumes the first of these calls; the other job has ended.
	for _, call := range []string{"suspended", "ended"} {
		intend(call, "dead")
		job := &run.Job{Job: toolroom.Job{ID: call, Call: toolroom.Call{ID: call}, State: toolroom.JobRunning, Created: time.Now()}, Fence: 1}
		if err := died.CreateJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	if err := died.FinishJob(t.Context(), "ended", 1, &toolroom.Result{}, time.Now()); err != nil {
		t.Fatal(err)
	}
	died.Close()

	s, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []int{2, 0} {
		n, err := s.SettleIntents(t.Context(), func(owner string) bool { return owner == "alive" }, func(r *toolroom.Receipt) {
			r.Status, r.Effects = toolroom.StatusError, toolroom.EffectsUnknown
		})
		if n != want || err != nil {
			t.Errorf("SettleIntents = %d, %v; want %d", n, err, want)
		}
	}
	r, err := s.Receipt(t.Context(), "lost")
	if err != nil || r.Effects != toolroom.EffectsUnknown || string(r.Arguments) != `{"to":"bob"}` {
		t.Errorf("the receipt is %+v, %v", r, err)
	}
	if _, err := s.Receipt(t.Context(), "suspended"); toolroom.CodeOf(err) != toolroom.CodeNotFound {
		t.Errorf("a suspended call has a receipt already, %v", err)
	}
	if n, err := s.VerifyReceipts(t.Context(), nil); n != 2 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v", n, err)
	}
}
