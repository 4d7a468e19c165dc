package receipt

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func TestAReceiptHasTheHashOfItsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hashes := map[string]string{}
		store := &recordingStore{fakeStore: &fakeStore{space: math.MaxInt64}, keep: func(group []*Draft) {
			for _, r := range group {
				hashes[r.ID] = r.ArgumentsHash
				if r.RawArguments != nil {
					t.Errorf("%s still has its raw arguments", r.ID)
				}
			}
		}}
		r := NewRecorder(store, RecorderOptions{})
		for id, d := range map[string]*Draft{
			"a": {RawArguments: json.RawMessage(`{"y": 2, "x": 1}`)}, "b": {RawArguments: json.RawMessage(`{"x":1,"y":2}`)},
			"computed": {Receipt: toolroom.Receipt{ArgumentsHash: "before"}}, "no JSON": {RawArguments: json.RawMessage(`{`)},
		} {
			d.ID = id
			if err := r.Append(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		closeRecorder(t, r)
		want := Hash([]byte(`{"x":1,"y":2}`))
		if diff := cmp.Diff(map[string]string{"a": want, "b": want, "computed": "before", "no JSON": ""}, hashes); diff != "" {
			t.Error(diff)
		}
	})
}

func TestNewReceiptsDoNotKeepCommittedOnesInTheJournal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, delay: time.Minute}
		r := NewRecorder(store, RecorderOptions{Journal: NewJournal(dir, "1-2")})
		appendCalls(t, r, "first")
		time.Sleep(time.Second) // the commit of the first is under way
		appendCalls(t, r, "second")
		time.Sleep(time.Minute)
		synctest.Wait()
		var text string
		for _, file := range journalFiles(t, dir) {
			part, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text += string(part)
		}
		if strings.Contains(text, "first") || !strings.Contains(text, "second") || r.Queued() != 1 {
			t.Errorf("%d wait, and the journal has %s", r.Queued(), text)
		}
		closeRecorder(t, r)
		if r.Queued() != 0 {
			t.Errorf("%d wait", r.Queued())
		}
	})
}

// numbered is a store that numbers what it is given from a number on.
type numbered struct {
	*fakeStore
	from int64
}

func (s *numbered) AppendReceipts(ctx context.Context, group []*Draft) error {
	if err := s.fakeStore.AppendReceipts(ctx, group); err != nil {
		return err
	}
	for _, r := range group {
		if r.ID == "again" { // it is stored already
			continue
		}
		r.Seq, r.Hash = s.from, strings.Repeat(string(rune('a'+s.from)), 64)
		s.from++
	}
	return nil
}

func TestTheHeadFollowsEachGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		head := NewHead(filepath.Join(t.TempDir(), "receipts.head"))
		store := &numbered{&fakeStore{space: math.MaxInt64}, 1}
		var failed []error
		r := NewRecorder(store, RecorderOptions{Head: head, Group: 2, OnError: func(err error) { failed = append(failed, err) }})
		for _, tt := range []struct {
			calls []string
			err   error
			want  int64
		}{
			{[]string{"a"}, nil, 1},
			{[]string{"b", "c"}, nil, 3},
			{[]string{"d"}, errors.New("locked"), 3},
			{nil, nil, 4},
		} {
			store.fail(tt.err)
			appendCalls(t, r, tt.calls...)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if c, err := head.read(); err != nil || c.Seq != tt.want || c.Hash != strings.Repeat(string(rune('a'+tt.want)), 64) {
				t.Errorf("after %v: %+v, %v", tt.calls, c, err)
			}
		}
		// A receipt that was already stored has no number, and moves no head.
		for _, group := range [][]string{{"again"}, {"e", "again"}, {"again", "f"}} {
			appendCalls(t, r, group...)
			time.Sleep(time.Second)
			synctest.Wait()
			if c, err := head.read(); err != nil || c.Seq != 4 || len(failed) > 0 {
				t.Errorf("after %v: %+v, %v, %v", group, c, err, failed)
			}
		}
		store.from = 5
		appendCalls(t, r, "e")
		time.Sleep(time.Second)
		synctest.Wait()
		if err := os.WriteFile(head.path, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		appendCalls(t, r, "g")
		closeRecorder(t, r)
		if len(failed) != 1 {
			t.Errorf("told %v", failed)
		}
	})
}

func TestAJournalThatCannotBeWrittenIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		told := 0
		r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{Journal: NewJournal(file, "1-2"), OnError: func(err error) {
			if err == nil {
				t.Error("told of nothing")
			}
			told++
		}})
		appendCalls(t, r, "a")
		for range 2 {
			closeRecorder(t, r)
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		r = NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{Journal: NewJournal(file, "1-2")})
		appendCalls(t, r, "a") // nobody listens
		closeRecorder(t, r)
	})
}

func TestAJournalIsClosedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{Journal: NewJournal(dir, "1-2"), OnError: func(err error) { t.Error(err) }})
		appendCalls(t, r, "a")
		for range 2 {
			closeRecorder(t, r)
		}
	})
}

type panicking struct{ *fakeStore }

func (panicking) AppendReceipts(context.Context, []*Draft) error { panic("a bug") }

func TestAStoreThatPanicsIsAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(panicking{&fakeStore{space: math.MaxInt64}}, RecorderOptions{})
		appendCalls(t, r, "a")
		time.Sleep(time.Second)
		err := toolroom.AsError(r.Ready())
		if err == nil || !strings.HasPrefix(err.Message, "receipts cannot be written: ") || err.Hint == "" || !err.Retryable {
			t.Errorf("Ready = %+v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Close(ctx); err == nil || !strings.Contains(err.Error(), "1 receipts could not be written") {
			t.Errorf("Close = %v", err)
		}
		if err := r.Flush(t.Context()); err == nil {
			t.Error("Flush after a loss says that all is durable")
		}
	})
}

func TestAFlushEndsWhenTheRecorderIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder(&fakeStore{space: math.MaxInt64, delay: time.Hour}, RecorderOptions{})
		appendCalls(t, r, "a")
		flushed := make(chan error)
		go func() { flushed <- r.Flush(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Close(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Close = %v", err)
		}
		if err := <-flushed; err == nil {
			t.Error("Flush says that all is durable")
		}
		if err := r.Flush(t.Context()); err == nil {
			t.Error("Flush afterwards says that all is durable")
		}
	})
}

func TestAppendGivesUpWhenTheRecorderIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		r := NewRecorder(store, RecorderOptions{Queue: 1, Retry: time.Hour, MaxRetry: time.Hour})
		appendCalls(t, r, "a")
		synctest.Wait()
		refused := make(chan error)
		go func() { refused <- r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "b"}}) }()
		synctest.Wait()
		closed := make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { closed <- r.Close(ctx) }()
		if err := <-refused; err == nil || !strings.Contains(err.Error(), "record call b") || !strings.Contains(err.Error(), "closed") {
			t.Errorf("Append = %v", err)
		}
		cancel()
		if err := <-closed; err == nil || !strings.Contains(err.Error(), "locked") {
			t.Errorf("Close = %v", err)
		}
	})
}

func TestClosingDoesNotWaitForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{Window: time.Hour})
		appendCalls(t, r, "a")
		synctest.Wait()
		start := time.Now()
		closeRecorder(t, r)
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAFullGroupDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{Window: time.Hour, Group: 2})
		appendCalls(t, r, "a")
		synctest.Wait() // in its window
		appendCalls(t, r, "b")
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"a", "b"}}, store.groups()); diff != "" {
			t.Error(diff)
		}
		closeRecorder(t, r)
	})
}

func TestTheNextFailureIsRetriedSoonAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64}
		r := NewRecorder(store, RecorderOptions{Window: time.Millisecond, Retry: time.Second, MaxRetry: time.Hour})
		for range 2 {
			store.fail(errors.New("locked"))
			appendCalls(t, r, "a")
			time.Sleep(5 * time.Second) // tried after 0, 1 and 3 s
			store.fail(nil)
			start := time.Now()
			for len(store.groups()) == 0 {
				time.Sleep(time.Second)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("it took %v", took)
			}
			store.mu.Lock()
			store.stored = nil
			store.mu.Unlock()
		}
		closeRecorder(t, r)
	})
}

func TestReceiptsAreLeftOutAndCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		var left []int
		for _, tell := range []func(int){nil, func(n int) { left = append(left, n) }} {
			r := NewRecorder(store, RecorderOptions{Queue: 2, OnDropped: tell})
			store.fail(errors.New("locked"))
			appendCalls(t, r, "a")
			if err := r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "b"}, Refused: true}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // it is tried, and fails
			store.fail(nil)
			time.Sleep(3 * time.Second)
			appendCalls(t, r, "c")
			closeRecorder(t, r)
		}
		if diff := cmp.Diff([]int{1}, left); diff != "" {
			t.Error(diff)
		}
	})
}

func TestTheReserveHasADefaultAndCanBeNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for reserve, ready := range map[int64]bool{0: false, 1 << 20: true, -1: true} {
			r := NewRecorder(&fakeStore{space: 1 << 20}, RecorderOptions{Reserve: reserve})
			if err := r.Ready(); (err == nil) != ready {
				t.Errorf("with the reserve %d: %v", reserve, err)
			}
			closeRecorder(t, r)
		}
		for _, unlimited := range []*fakeStore{{space: -1}, {spaceErr: errors.New("unknown")}} {
			o := RecorderOptions{Reserve: -1}
			if unlimited.spaceErr != nil {
				o.Reserve = 0
			}
			r := NewRecorder(unlimited, o)
			if err := r.Ready(); err != nil {
				t.Error(err)
			}
			closeRecorder(t, r)
		}
	})
}

type intending struct {
	Store
	owner string
	err   error
}

func (s *intending) IntendReceipt(_ context.Context, _ *toolroom.Receipt, owner string) error {
	s.owner = owner
	return s.err
}

func TestAnIntentThatIsNotStoredIsAnError(t *testing.T) {
	store := &intending{err: errors.New("full")}
	r := NewRecorder(store, RecorderOptions{})
	defer closeRecorder(t, r)
	if err := r.Intend(t.Context(), &toolroom.Receipt{}, "1-2"); !errors.Is(err, store.err) || store.owner != "1-2" {
		t.Errorf("%v, of %q", err, store.owner)
	}
}

// Nobody reads the lines that OnStored writes. Close gives up at its deadline nevertheless.
func TestCloseDoesNotWaitForAReaderOfStoredReceipts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := make(chan struct{})
		lines := LinesTo(writerFunc(func(p []byte) (int, error) { <-read; return len(p), nil }), slog.New(slog.DiscardHandler))
		r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{OnStored: lines.Write})
		appendCalls(t, r, "first")
		time.Sleep(time.Second) // the line of the first is being written
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		closed := make(chan error, 1)
		go func() {
			err := r.Close(ctx)
			closed <- errors.Join(err, lines.Close())
		}()
		select {
		case err := <-closed:
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		case <-time.After(time.Minute):
			t.Error("Close waits for the reader of the lines")
		}
		close(read)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// The log of a room may be slow, or use the room. No call waits for a lock that is held meanwhile.
func TestErrorsAreReportedWithoutTheLock(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, j := range map[string]*Journal{"write": NewJournal(file, "1-2"), "sync": NewJournal(filepath.Join(folder, "journal"), "1-2")} {
		j.syncFile = func(*os.File) error { return errors.New("broken disk") }
		var r *Recorder
		reported := make(chan int, 10)
		r = NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{
			Journal: j, Sync: func(*toolroom.Receipt) bool { return true }, OnError: func(error) { reported <- r.Queued() },
		})
		appended := make(chan error, 1)
		go func() { appended <- r.Append(t.Context(), &Draft{Receipt: toolroom.Receipt{ID: "a"}}) }()
		select {
		case err := <-appended:
			if err != nil || len(reported) != 1 {
				t.Errorf("%s: %d errors were reported, %v", name, len(reported), err)
			}
			closeRecorder(t, r)
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the recorder holds its lock while it reports an error", name)
		}
	}
}
