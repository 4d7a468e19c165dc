package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
)

func nobodyLives(string) bool { return false }

func journalFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// killed gives a folder with the journal of a process that ended before anything
// was committed.
func killed(t *testing.T, recs ...*Draft) string {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("locked")}
		r := NewRecorder(store, RecorderOptions{Journal: NewJournal(dir, "1-2")})
		for _, rec := range recs {
			if err := r.Append(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Close(ctx); err == nil || !strings.Contains(err.Error(), "journal") {
			t.Errorf("Close = %v", err)
		}
	})
	return dir
}

func TestWhatAKilledProcessAnsweredIsTakenOver(t *testing.T) {
	dir := killed(t,
		&Draft{Receipt: toolroom.Receipt{ID: "a", Arguments: json.RawMessage(`{"x": 1}`)}, Called: json.RawMessage(`{"secret": 1}`)},
		&Draft{Receipt: toolroom.Receipt{ID: "b", Arguments: json.RawMessage(`{"broken`), Error: &toolroom.Error{Code: toolroom.CodeInternal, Details: map[string]any{"f": math.NaN()}}}},
		&Draft{Receipt: toolroom.Receipt{ID: "c"}},
	)
	for _, file := range journalFiles(t, dir) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("secret")) {
			t.Errorf("what is masked is in the journal: %s", text)
		}
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	store := &fakeStore{space: math.MaxInt64}
	if n, _, err := Recover(t.Context(), dir, func(owner string) bool { return owner == "1-2" }, store); n != 0 || err != nil {
		t.Errorf("%d receipts of a process that runs, %v", n, err)
	}
	n, damaged, err := Recover(t.Context(), dir, nobodyLives, store)
	if n != 3 || damaged != 0 || err != nil {
		t.Errorf("%d, %d damaged, %v", n, damaged, err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, store.calls()); diff != "" {
		t.Error(diff)
	}
	if left := journalFiles(t, dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAStoreThatRefusesLeavesTheJournal(t *testing.T) {
	dir := killed(t, &Draft{Receipt: toolroom.Receipt{ID: "a"}})
	if _, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{err: errors.New("locked")}); err == nil {
		t.Error("it is taken for recovered")
	}
	store := &fakeStore{}
	if n, _, err := Recover(t.Context(), dir, nobodyLives, store); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestATornLineCostsNoOther(t *testing.T) {
	dir := killed(t, &Draft{Receipt: toolroom.Receipt{ID: "a"}}, &Draft{Receipt: toolroom.Receipt{ID: "b"}})
	file := journalFiles(t, dir)[0]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append([]byte("7 {\"id\":\n"), text[:len(text)-3]...), 0o600); err != nil {
		t.Fatal(err)
	}
	store := &fakeStore{}
	n, damaged, err := Recover(t.Context(), dir, nobodyLives, store)
	if n != 1 || damaged != 2 || err != nil {
		t.Errorf("%d, %d damaged, %v", n, damaged, err)
	}
}

func TestWhatIsCommittedDoesNotStayInTheJournal(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, delay: time.Millisecond}
		r := NewRecorder(store, RecorderOptions{Group: 3, Journal: NewJournal(dir, "1-2")})
		for range 10 {
			appendCalls(t, r, "a", "b", "c", "d", "e", "f", "g")
		}
		if err := r.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, file := range journalFiles(t, dir) {
			if info, err := os.Stat(file); err != nil || info.Size() > 0 {
				t.Errorf("%s has %d bytes, %v", file, info.Size(), err)
			}
		}
		closeRecorder(t, r)
	})
	if left := journalFiles(t, dir); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestAppendWaitsForTheDiskWhereItMust(t *testing.T) {
	for name, c := range map[string]struct {
		o    func(dir string) RecorderOptions
		want time.Duration
	}{
		"the journal is enough": {func(dir string) RecorderOptions { return RecorderOptions{Journal: NewJournal(dir, "1-2")} }, 0},
		"the receipt is selected": {func(string) RecorderOptions {
			return RecorderOptions{Sync: func(*toolroom.Receipt) bool { return true }}
		}, 3 * time.Millisecond},
		"the journal cannot be written": {func(dir string) RecorderOptions {
			return RecorderOptions{Journal: NewJournal(filepath.Join(dir, "file"), "1-2")}
		}, 3 * time.Millisecond},
		"another receipt is selected": {func(string) RecorderOptions {
			return RecorderOptions{Sync: func(r *toolroom.Receipt) bool { return r.ID != "a" }}
		}, 0},
		"the receipt is selected and stored": {func(dir string) RecorderOptions {
			return RecorderOptions{Journal: NewJournal(dir, "1-2"), Sync: func(*toolroom.Receipt) bool { return true }}
		}, 3 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				o := c.o(dir)
				o.Window = time.Hour
				r := NewRecorder(&fakeStore{space: math.MaxInt64, delay: 3 * time.Millisecond}, o)
				defer closeRecorder(t, r)
				start := time.Now()
				appendCalls(t, r, "a")
				if took := time.Since(start); took != c.want {
					t.Errorf("it took %v, not %v", took, c.want)
				}
			})
		})
	}
}

func TestAppendDoesNotWaitForAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &fakeStore{space: math.MaxInt64, err: errors.New("full")}
		r := NewRecorder(store, RecorderOptions{Sync: func(*toolroom.Receipt) bool { return true }})
		start := time.Now()
		appendCalls(t, r, "a", "b")
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		store.fail(nil)
		closeRecorder(t, r)
	})
}

// slowStore is a store in which a second process may come between.
type slowStore struct{ *fakeStore }

func (s slowStore) AppendReceipts(ctx context.Context, recs []*Draft) error {
	time.Sleep(20 * time.Millisecond)
	return s.fakeStore.AppendReceipts(ctx, recs)
}

func TestProcessesThatRecoverAtOnceAppendOnce(t *testing.T) {
	dir := killed(t, &Draft{Receipt: toolroom.Receipt{ID: "a"}}, &Draft{Receipt: toolroom.Receipt{ID: "b"}})
	store := slowStore{&fakeStore{space: math.MaxInt64}}
	var all sync.WaitGroup
	var total atomic.Int64
	for range 4 {
		all.Go(func() {
			n, _, err := Recover(t.Context(), dir, nobodyLives, store)
			total.Add(int64(n))
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff([]string{"a", "b"}, store.calls()); diff != "" || total.Load() != 2 {
		t.Errorf("%d were found\n%s", total.Load(), diff)
	}
}
