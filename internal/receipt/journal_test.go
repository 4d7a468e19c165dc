package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	return slices.DeleteFunc(files, func(path string) bool { return filepath.Ext(path) == ".lock" })
}

// encoded is a receipt whose body is encoded, without details.
func encoded(body string) *Draft { return &Draft{body: []byte(body), detail: []byte("{}")} }

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
		&Draft{Receipt: toolroom.Receipt{ID: "a", Arguments: json.RawMessage(`{"x": 1}`)}, RawArguments: json.RawMessage(`{"secret": 1}`)},
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
	if err := os.WriteFile(file, append([]byte("7 {\"id\":\nseven {\"id\":\"c\"}\n"), text[:len(text)-3]...), 0o600); err != nil {
		t.Fatal(err)
	}
	store := &fakeStore{}
	n, damaged, err := Recover(t.Context(), dir, nobodyLives, store)
	if n != 1 || damaged != 3 || err != nil {
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
		"the receipt is selected and the journal synced": {func(dir string) RecorderOptions {
			j := NewJournal(dir, "1-2")
			j.syncFile = func(f *os.File) error { time.Sleep(time.Millisecond); return f.Sync() }
			return RecorderOptions{Journal: j, Sync: func(*toolroom.Receipt) bool { return true }}
		}, time.Millisecond},
		"the journal cannot be synced": {func(dir string) RecorderOptions {
			j := NewJournal(dir, "1-2")
			j.syncFile = func(*os.File) error { return errors.New("no disk") }
			return RecorderOptions{Journal: j, Sync: func(*toolroom.Receipt) bool { return true }}
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

// A power loss leaves what the disk has synced: the store, and each file of the journal as
// it was when it was last synced.
func TestAPowerLossLosesNoReceiptThatAppendHasSynced(t *testing.T) {
	t.Parallel()
	dir, disk := t.TempDir(), t.TempDir()
	var mu sync.Mutex // of disk, which has no half-written files
	j := NewJournal(dir, "1-2")
	j.syncFile = func(f *os.File) error {
		text, err := os.ReadFile(f.Name())
		if err == nil {
			err = f.Sync()
		}
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, os.WriteFile(filepath.Join(disk, filepath.Base(f.Name())), text, 0o600))
	}
	store := &fakeStore{space: math.MaxInt64}
	r := NewRecorder(store, RecorderOptions{
		Journal: j, Window: time.Millisecond, Group: 16, Sync: func(r *toolroom.Receipt) bool { return r.Effects == toolroom.EffectsDone },
	})
	survives := func(id string) bool { // a power loss now
		mu.Lock()
		defer mu.Unlock()
		if slices.Contains(store.calls(), id) {
			return true
		}
		for _, file := range journalFiles(t, disk) {
			if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), `"id":"`+id+`"`) {
				return err == nil
			}
		}
		return slices.Contains(store.calls(), id) // it was committed meanwhile
	}
	var callers sync.WaitGroup
	for caller := range 8 {
		callers.Go(func() {
			for n := range 50 {
				id := fmt.Sprintf("call-%d-%d.", caller, n)
				read := &Draft{Receipt: toolroom.Receipt{ID: "read-" + id, Effects: toolroom.EffectsNone}}
				write := &Draft{Receipt: toolroom.Receipt{ID: id, Effects: toolroom.EffectsDone}}
				if err := errors.Join(r.Append(t.Context(), read), r.Append(t.Context(), write)); err != nil {
					t.Error(err)
				}
				if !survives(id) {
					t.Errorf("a power loss after the answer loses %s", id)
				}
			}
		})
	}
	callers.Wait()
	closeRecorder(t, r)
	if n := len(store.calls()); n != 800 {
		t.Errorf("%d of 800 receipts are in the store", n)
	}
}

// The first sync covers the names of the files, and one sync serves all who wait.
func TestCallsThatWaitForTheJournalShareASync(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var syncs atomic.Int64
		j := NewJournal(dir, "1-2")
		j.syncFile = func(*os.File) error { syncs.Add(1); time.Sleep(time.Millisecond); return nil }
		r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{
			Journal: j, Window: time.Hour, Sync: func(*toolroom.Receipt) bool { return true },
		})
		start := time.Now()
		var callers sync.WaitGroup
		for i := range 20 {
			callers.Go(func() { appendCalls(t, r, strconv.Itoa(i)) })
		}
		callers.Wait()
		if took := time.Since(start); syncs.Load() > 2 || took > 2*time.Millisecond {
			t.Errorf("20 calls at once needed %d syncs and %v", syncs.Load(), took)
		}
		if j.created != 1 || j.namesSynced != 1 {
			t.Errorf("%d of %d names are on the disk", j.namesSynced, j.created)
		}
		closeRecorder(t, r)
	})
}

// After a failed sync Linux takes the pages for written: the next sync succeeds, although
// the entries are not on the disk.
func TestASyncThatFailedIsNotMadeGoodByTheNext(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var syncs, failures atomic.Int64
		j := NewJournal(dir, "1-2")
		j.syncFile = func(*os.File) error {
			time.Sleep(time.Millisecond)
			if syncs.Add(1) == 1 {
				return errors.New("input/output error")
			}
			return nil
		}
		store := &fakeStore{space: math.MaxInt64, delay: time.Second}
		r := NewRecorder(store, RecorderOptions{
			Journal: j, Window: time.Hour, Sync: func(*toolroom.Receipt) bool { return true },
			OnError: func(error) { failures.Add(1) },
		})
		call := func(id string) {
			appendCalls(t, r, id)
			if !slices.Contains(store.calls(), id) {
				t.Errorf("%s is not in the store, and the journal may have lost it", id)
			}
		}
		var callers sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} { // one syncs, the others wait for it
			callers.Go(func() { call(id) })
		}
		callers.Wait()
		call("d")
		if failures.Load() != 1 {
			t.Errorf("the failure was reported %d times", failures.Load())
		}
		closeRecorder(t, r)
	})
}

// A server in another container has another PID namespace: all other processes seem to have ended.
func TestRecoverLeavesAJournalThatIsInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := NewRecorder(&fakeStore{space: math.MaxInt64}, RecorderOptions{
		Journal: NewJournal(dir, "1-2"), Window: time.Hour, Sync: func(*toolroom.Receipt) bool { return true },
	})
	appendCalls(t, r, "a")
	before := journalFiles(t, dir)
	if n, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{}); n != 0 || err != nil {
		t.Errorf("%d receipts, %v", n, err)
	}
	if diff := cmp.Diff(before, journalFiles(t, dir)); diff != "" || len(before) == 0 {
		t.Errorf("journals (-before +after):\n%s", diff)
	}
	closeRecorder(t, r)
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("closed, it leaves %v, %v", left, err)
	}
}

func TestRecoverRemovesTheLockOfAJournal(t *testing.T) {
	t.Parallel()
	dir := killed(t, encoded("{}"))
	if locks, err := filepath.Glob(filepath.Join(dir, "*.lock")); len(locks) != 1 || err != nil {
		t.Errorf("locks %v, %v", locks, err)
	}
	if n, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{space: math.MaxInt64}); n != 1 || err != nil {
		t.Errorf("%d receipts, %v", n, err)
	}
	if left, err := os.ReadDir(dir); len(left) != 0 || err != nil {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

func TestCallsDoNotWaitForAJournalThatAnotherProcessHasRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := &fakeStore{space: math.MaxInt64}
	r := NewRecorder(store, RecorderOptions{
		Journal: NewJournal(dir, "1-2"), Window: time.Hour, Sync: func(*toolroom.Receipt) bool { return true },
	})
	appendCalls(t, r, "a")
	for _, file := range journalFiles(t, dir) {
		if err := os.Remove(file); runtime.GOOS != "windows" && err != nil {
			t.Fatal(err) // Windows does not remove open files
		}
	}
	for _, id := range []string{"b", "c"} {
		appendCalls(t, r, id)
		if len(journalFiles(t, dir)) == 0 && !slices.Contains(store.calls(), id) {
			t.Errorf("%s is neither in the store nor in a file that has a name", id)
		}
	}
	closeRecorder(t, r)
}

// A file that is being committed is synced, too, for calls that wait for entries in it.
func TestASyncCoversBothFiles(t *testing.T) {
	t.Parallel()
	j := NewJournal(t.TempDir(), "1-2")
	var synced []string
	j.syncFile = func(f *os.File) error { synced = append(synced, filepath.Ext(f.Name())); return nil }
	add := func() {
		t.Helper()
		if err := j.add(encoded("{}")); err != nil {
			t.Fatal(err)
		}
	}
	sync := func(want ...string) {
		t.Helper()
		do, done := j.sync()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		done()
		if diff := cmp.Diff(want, synced); diff != "" {
			t.Error(diff)
		}
		synced = nil
	}
	add()
	j.switchFile()
	add()
	sync(".0", ".1")
	sync()
	add()
	sync(".1")
	j.dropCommitted(1)
	add()
	j.switchFile()
	add()
	j.dropCommitted(4) // by the store, which has synced it
	sync(".0")
	if j.synced != 5 || j.namesSynced != 2 {
		t.Errorf("%d entries and %d names are on the disk", j.synced, j.namesSynced)
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

func TestWhatCannotBeEncodedIsLeftOutOfTheJournal(t *testing.T) {
	dir := killed(t,
		&Draft{Receipt: toolroom.Receipt{ID: "a", Value: json.RawMessage(`{"broken`), Logs: []toolroom.LogLine{{Data: json.RawMessage(`{`)}}, Preview: "kept"}},
		&Draft{Receipt: toolroom.Receipt{ID: "b"}, RawArguments: json.RawMessage(`{"y": 2, "x": 1}`)},
	)
	var got []*Draft
	store := &recordingStore{fakeStore: &fakeStore{}, keep: func(group []*Draft) { got = append(got, group...) }}
	if n, _, err := Recover(t.Context(), dir, nobodyLives, store); n != 2 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if got[0].Preview != "kept" || got[0].Entry != 1 || got[1].Entry != 2 || got[0].Journal == "" {
		t.Errorf("%+v", got[0])
	}
	if want := Hash([]byte(`{"x":1,"y":2}`)); got[1].ArgumentsHash != want {
		t.Errorf("the arguments have the hash %q", got[1].ArgumentsHash)
	}
}

// recordingStore is a store that shows what it is given.
type recordingStore struct {
	*fakeStore
	keep func([]*Draft)
}

func (s *recordingStore) AppendReceipts(ctx context.Context, group []*Draft) error {
	s.keep(group)
	return s.fakeStore.AppendReceipts(ctx, group)
}

func TestAJournalAlternatesBetweenTwoFiles(t *testing.T) {
	t.Parallel()
	j := NewJournal(t.TempDir(), "1-2")
	sizes := func() (sizes [2]int64) {
		for i := range sizes {
			if info, err := os.Stat(j.path(i)); err == nil {
				sizes[i] = info.Size()
			}
		}
		return sizes
	}
	line := int64(len("1 {\"body\":{},\"detail\":{}}\n"))
	add := func() {
		t.Helper()
		if err := j.add(encoded("{}")); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, want [2]int64) {
		t.Helper()
		if got := sizes(); got != want {
			t.Errorf("%s: %v bytes, want %v", when, got, want)
		}
	}
	j.switchFile() // nothing is written yet
	add()          // 1
	add()          // 2
	expect("at first", [2]int64{2 * line, 0})
	j.switchFile()
	add() // 3
	expect("while the first is committed", [2]int64{2 * line, line})
	j.switchFile() // the other file is not empty
	j.dropCommitted(1)
	expect("after a part", [2]int64{2 * line, line})
	j.dropCommitted(2)
	expect("after all of it", [2]int64{0, line})
	add() // 4
	j.switchFile()
	add() // 5
	expect("after the second turn", [2]int64{line, 2 * line})
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	expect("what is not committed stays", [2]int64{line, 2 * line})

	var order []string
	store := &recordingStore{fakeStore: &fakeStore{}, keep: func(group []*Draft) {
		for _, r := range group {
			order = append(order, strconv.FormatInt(r.Entry, 10))
		}
	}}
	if n, _, err := Recover(t.Context(), j.dir, nobodyLives, store); n != 3 || err != nil || strings.Join(order, " ") != "3 4 5" {
		t.Errorf("%d in the order %v, %v", n, order, err)
	}

	unused := NewJournal(t.TempDir(), "1-2")
	if err := unused.close(); err != nil {
		t.Errorf("a journal that was not used: %v", err)
	}
}

func TestAWriteThatFailsHalfwayCostsItsOwnLineOnly(t *testing.T) {
	t.Parallel()
	j := NewJournal(t.TempDir(), "1-2")
	if err := j.add(encoded(`{"id":"a"}`)); err != nil {
		t.Fatal(err)
	}
	// A disk that is full writes a part of the line.
	file := j.files[0]
	if _, err := file.WriteString(`2 {"id":`); err != nil {
		t.Fatal(err)
	}
	closed, err := os.Open(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	j.files[0] = closed
	if err := j.add(encoded(`{"id":"b"}`)); err == nil {
		t.Fatal("a write to a closed file")
	}
	j.files[0] = file
	for _, id := range []string{"c", "d"} {
		if err := j.add(encoded(`{"id":"` + id + `"}`)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(j.path(0))
	if want := "1 {\"body\":{\"id\":\"a\"},\"detail\":{}}\n2 {\"id\":\n3 {\"body\":{\"id\":\"c\"},\"detail\":{}}\n4 {\"body\":{\"id\":\"d\"},\"detail\":{}}\n"; err != nil || string(text) != want {
		t.Errorf("%q, %v", text, err)
	}
	j.files[1] = closed
	if err := j.close(); err == nil {
		t.Error("a file that cannot be closed is no error")
	}
	store := &fakeStore{}
	if n, damaged, err := Recover(t.Context(), j.dir, nobodyLives, store); n != 3 || damaged != 1 || err != nil || strings.Join(store.calls(), " ") != "a c d" {
		t.Errorf("%d, %d damaged, %v", n, damaged, err)
	}
	blocked := NewJournal(t.TempDir(), "1-2")
	if err := os.Mkdir(blocked.path(0), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := blocked.add(encoded("{}")); err == nil {
		t.Error("a folder was written")
	}
}

func TestRecoverLeavesWhatIsNoJournal(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "journals")
	if n, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{}); n != 0 || err != nil {
		t.Errorf("without a folder: %d, %v", n, err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1-2.abc", "name.0", "1%zz.abc.1", "1-2.abc.2"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("1 {}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{}); n != 0 || err != nil || len(journalFiles(t, dir)) != 4 {
		t.Errorf("%d, %v; left are %v", n, err, journalFiles(t, dir))
	}
	if err := os.Mkdir(filepath.Join(dir, "1-2.abc.0"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Recover(t.Context(), dir, nobodyLives, &fakeStore{}); err == nil {
		t.Error("a journal that cannot be read is no error")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Recover(t.Context(), file, nobodyLives, &fakeStore{}); err == nil {
		t.Error("a file is no folder of journals")
	}
	if err := os.Mkdir(dir+"2.lock", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"2", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Recover(t.Context(), dir+"2", nobodyLives, &fakeStore{}); err == nil || !strings.Contains(err.Error(), "lock the journals") {
		t.Errorf("without its lock: %v", err)
	}
}

func TestAJournalIsGoneWhenItsProcessHasEndedAndItsFilesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"1.a.0", "2.a.1", "3.a.0", "3.a.1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alive := func(owner string) bool { return owner == "5" || owner == "" }
	for journal, want := range map[string]bool{"1.a": false, "2.a": false, "3.a": false, "4.a": true, "5.a": false, "": true} {
		if got := IsGone(dir, journal, alive); got != want {
			t.Errorf("%q is gone: %v", journal, got)
		}
	}
}
