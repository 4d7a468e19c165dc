package receipt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecorderCommitsWhatArrivesWithinTheWindowAsOneGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{})
		defer closeRecorder(t, r)

		appendCalls(t, r, "a", "b", "c")
		synctest.Wait()
		if got := store.groups(); len(got) != 0 {
			t.Fatalf("committed %v before the window was over", got)
		}
		time.Sleep(25 * time.Millisecond)
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"a", "b", "c"}}, store.groups()); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
	})
}

func TestRecorderSplitsALongQueueIntoGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{Group: 2})
		appendCalls(t, r, "a", "b", "c", "d", "e")
		closeRecorder(t, r)
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, store.calls()); diff != "" {
			t.Errorf("receipts (-want +got):\n%s", diff)
		}
		// The writer may begin before a second receipt is there, so groups may be smaller.
		for _, group := range store.groups() {
			if len(group) > 2 {
				t.Errorf("the group %v has more than 2 receipts", group)
			}
		}
	})
}

func TestFlushReturnsWhenEverythingAppendedIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, delay: 3 * time.Millisecond}
		r := NewRecorder(store, RecorderOptions{Window: time.Hour})
		defer closeRecorder(t, r)

		appendCalls(t, r, "a", "b")
		start := time.Now()
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b"}, store.calls()); diff != "" {
			t.Errorf("durable after Flush (-want +got):\n%s", diff)
		}
		if took := time.Since(start); took != store.delay {
			t.Errorf("Flush took %v: it must not wait for the window, only for the commit of %v", took, store.delay)
		}
	})
}

func TestFlushOfAnEmptyRecorderReturnsAtOnce(t *testing.T) {
	r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{Window: time.Hour})
	defer closeRecorder(t, r)
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFlushEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, delay: time.Hour}
		r := NewRecorder(store, RecorderOptions{})
		defer closeRecorder(t, r)
		appendCalls(t, r, "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Flush(ctx); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("Flush = %v, want a timeout", err)
		}
	})
}

func TestRecorderKeepsAndRetriesWhatTheStoreRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{Group: 2})
		defer closeRecorder(t, r)
		if err := r.Ready(); err != nil {
			t.Fatalf("Ready of a new recorder = %v", err)
		}

		full := toolroom.Errorf(toolroom.CodeInternal, "the disk is full").WithHint("free space")
		store.fail(full)
		appendCalls(t, r, "a", "b", "c")
		time.Sleep(time.Second)
		appendCalls(t, r, "d")

		err := r.Ready()
		if toolroom.CodeOf(err) != toolroom.CodeInternal || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("Ready while the disk is full = %v", err)
		}
		if e := toolroom.AsError(err); !e.Retryable || e.Phase != toolroom.PhaseReceipt || e.Hint != "free space" {
			t.Errorf("Ready gives retryable %v, phase %q, hint %q", e.Retryable, e.Phase, e.Hint)
		}
		if err := r.Flush(t.Context()); err == nil {
			t.Error("Flush reports success while nothing can be written")
		}

		store.fail(nil)
		time.Sleep(2 * time.Second) // the longest pause between tries
		synctest.Wait()
		if err := r.Ready(); err != nil {
			t.Errorf("Ready after the disk had room again = %v", err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, store.calls()); diff != "" {
			t.Errorf("durable (-want +got):\n%s", diff)
		}
	})
}

func TestRecorderTriesLessOftenTheLongerTheStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		r := NewRecorder(store, RecorderOptions{Retry: time.Second, MaxRetry: 4 * time.Second})
		appendCalls(t, r, "a")
		start := time.Now()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		var at []time.Duration
		for _, tried := range store.tries() {
			at = append(at, tried.Sub(start).Truncate(time.Second))
		}
		if diff := cmp.Diff([]time.Duration{0, 1e9, 3e9, 7e9, 11e9}, at); diff != "" {
			t.Errorf("tries (-want +got):\n%s", diff)
		}
		store.fail(nil)
		closeRecorder(t, r)
	})
}

func TestAppendBlocksWhileTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		r := NewRecorder(store, RecorderOptions{Queue: 2})
		appendCalls(t, r, "a", "b")

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Append(ctx, &Draft{Receipt: toolroom.Receipt{ID: "refused"}})
		if toolroom.CodeOf(err) != toolroom.CodeTimeout || !strings.Contains(err.Error(), "refused") {
			t.Errorf("Append to a full queue = %v, want a timeout that names the call", err)
		}

		taken := make(chan error)
		go func() { taken <- r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "c"}}) }()
		synctest.Wait()
		store.fail(nil)
		if err := <-taken; err != nil {
			t.Errorf("Append after there was room = %v", err)
		}
		closeRecorder(t, r)
		if diff := cmp.Diff([]string{"a", "b", "c"}, store.calls()); diff != "" {
			t.Errorf("durable (-want +got):\n%s", diff)
		}
	})
}

func TestRefusedCallsTakeNoRoomFromThoseThatRan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("the disk is full")}
		left := 0
		r := NewRecorder(store, RecorderOptions{Queue: 4, OnDropped: func(n int) { left += n }})
		defer closeRecorder(t, r)
		appendCalls(t, r, "ran")
		for _, id := range []string{"refused", "refused too", "and again"} {
			if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: id}, Refused: true}); err != nil {
				t.Fatal(err)
			}
		}
		appendCalls(t, r, "ran as well", "ran last") // neither waits
		if left != 0 {
			t.Errorf("%d are said to be left out before anything could be written", left)
		}
		store.fail(nil)
		time.Sleep(2 * time.Second) // the longest pause between tries
		synctest.Wait()
		if diff := cmp.Diff([]string{"ran", "refused", "ran as well", "ran last"}, store.calls()); diff != "" || left != 2 {
			t.Errorf("%d were left out; durable (-want +got):\n%s", left, diff)
		}
	})
}

func TestAppendTakesTheReceiptOfACancelledCall(t *testing.T) {
	store := &fakeStore{space: math.MaxInt64}
	r := NewRecorder(store, RecorderOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Append(ctx, &Draft{Receipt: toolroom.Receipt{ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	closeRecorder(t, r)
	if diff := cmp.Diff([]string{"a"}, store.calls()); diff != "" {
		t.Errorf("durable (-want +got):\n%s", diff)
	}
}

func TestCloseGivesUpWithItsContextAndCountsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("the disk is full")}
		r := NewRecorder(store, RecorderOptions{})
		appendCalls(t, r, "a", "b", "c")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := r.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), "3 receipts could not be written") || !strings.Contains(err.Error(), "the disk is full") {
			t.Errorf("Close = %v, want the number of lost receipts and the reason", err)
		}
	})
}

// One Close may have more time than another, which gives up for both.
func TestACloseThatAnotherOneEndsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(&fakeStore{space: math.MaxInt64, delay: time.Hour}, RecorderOptions{})
		appendCalls(t, r, "a")
		patient := make(chan error)
		go func() { patient <- r.Close(t.Context()) }()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, err := range []error{r.Close(ctx), <-patient} {
			if err == nil || !strings.Contains(err.Error(), "context canceled") {
				t.Errorf("Close = %v, want the reason", err)
			}
		}
	})
}

func TestAClosedRecorderRefusesReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		r := NewRecorder(store, RecorderOptions{Queue: 1})
		appendCalls(t, r, "a")
		blocked := make(chan error)
		go func() { blocked <- r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "b"}}) }()
		synctest.Wait()

		store.fail(nil)
		closeRecorder(t, r)
		<-blocked // taken or refused, but not left waiting
		if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "c"}}); err == nil {
			t.Error("Append after Close succeeded")
		}
		if err := r.Ready(); err == nil {
			t.Error("Ready after Close = nil")
		}
		closeRecorder(t, r)
	})
}

func TestRecorderKeepsTheOrderOfEachCallerUnderLoad(t *testing.T) {
	t.Parallel()
	const callers, each = 8, 500
	store := &fakeStore{space: math.MaxInt64}
	r := NewRecorder(store, RecorderOptions{Queue: 64, Group: 16, Window: time.Microsecond})
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for n := range each {
				if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: fmt.Sprintf("%d/%03d", caller, n)}}); err != nil {
					t.Error(err)
				}
				if n%100 == 0 {
					if err := r.Flush(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	closeRecorder(t, r)

	next := map[string]int{}
	for _, id := range store.calls() {
		caller, n, _ := strings.Cut(id, "/")
		if want := fmt.Sprintf("%03d", next[caller]); n != want {
			t.Fatalf("caller %s: receipt %s came where %s was next", caller, n, want)
		}
		next[caller]++
	}
	for caller, n := range next {
		if n != each {
			t.Errorf("caller %s: %d receipts of %d", caller, n, each)
		}
	}
	if len(next) != callers {
		t.Errorf("receipts of %d callers, want %d", len(next), callers)
	}
}

func BenchmarkRecorderAppend(b *testing.B) {
	r := NewRecorder(&discard{}, RecorderOptions{})
	defer func() {
		if err := r.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}()
	rec := &Draft{Receipt: toolroom.Receipt{ID: "call_1"}}
	b.ReportAllocs()
	for b.Loop() {
		if err := r.Append(b.Context(), rec); err != nil {
			b.Fatal(err)
		}
	}
}

func appendCalls(t *testing.T, r *Recorder, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: id}}); err != nil {
			t.Fatal(err)
		}
	}
}

func closeRecorder(t *testing.T, r *Recorder) {
	t.Helper()
	if err := r.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// fakeStore keeps the ids of what it is given, or fails when told to.
type fakeStore struct {
	spaceErr error
	Store
	delay time.Duration

	mu       sync.Mutex
	err      error
	space    int64
	stored   [][]string
	attempts []time.Time
}

func (s *fakeStore) AppendReceipts(ctx context.Context, group []*Draft) error {
	if s.delay > 0 {
		select {
		case <-time.After(s.delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts = append(s.attempts, time.Now())
	if s.err != nil {
		return s.err
	}
	ids := make([]string, len(group))
	for i, r := range group {
		ids[i] = r.ID
	}
	s.stored = append(s.stored, ids)
	return nil
}

func (s *fakeStore) ReceiptSpace(context.Context) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space, s.spaceErr
}

func (s *fakeStore) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *fakeStore) groups() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stored
}

func (s *fakeStore) calls() []string {
	var ids []string
	for _, group := range s.groups() {
		ids = append(ids, group...)
	}
	return ids
}

func (s *fakeStore) tries() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.attempts
}

type discard struct{ Store }

func (*discard) AppendReceipts(context.Context, []*Draft) error { return nil }

func TestCallsAreRefusedWhileTooLittleRoomIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: 99}
		r := NewRecorder(store, RecorderOptions{Reserve: 100})
		defer r.Close(t.Context())
		err := r.Ready()
		if err == nil || !strings.Contains(err.Error(), "99 bytes are free") || !toolroom.AsError(err).Retryable {
			t.Errorf("Ready = %v", err)
		}
		// A call that runs already is recorded all the same.
		if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "a"}}); err != nil {
			t.Error(err)
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		store.mu.Lock()
		store.space = 100
		store.mu.Unlock()
		time.Sleep(spacePeriod)
		if err := r.Ready(); err != nil {
			t.Errorf("with room again, Ready = %v", err)
		}
	})
}

func TestWhatIsWrittenIsToldInOrderAndOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		var told []string
		r := NewRecorder(store, RecorderOptions{Group: 2, OnStored: func(group []*toolroom.Receipt) {
			for _, one := range group {
				told = append(told, one.ID)
			}
		}})
		for _, id := range []string{"a", "b", "c"} {
			if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: id}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		store.fail(nil)
		if err := r.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a", "b", "c"}, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// slowDisk takes its time to say how much room is left.
type slowDisk struct {
	*fakeStore
	asked, answer chan struct{}
}

func (s slowDisk) ReceiptSpace(context.Context) (int64, error) {
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
	<-s.answer
	return 99, nil
}

func TestASlowDiskHoldsUpNoReceipt(t *testing.T) {
	store := slowDisk{&fakeStore{}, make(chan struct{}), make(chan struct{})}
	r := NewRecorder(store, RecorderOptions{Reserve: 100})
	defer r.Close(t.Context())
	first := make(chan error)
	go func() { first <- r.Ready() }()
	<-store.asked
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "a"}}); err != nil {
			t.Error(err)
		}
		if err := r.Ready(); err != nil { // as far as is known
			t.Error(err)
		}
	}()
	select {
	case <-stored:
	case <-time.After(5 * time.Second):
		t.Error("a receipt waits for the disk")
	}
	close(store.answer)
	if err := <-first; err == nil {
		t.Error("with too little room, Ready returned nil")
	}
	<-stored
}
