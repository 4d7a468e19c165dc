package sqlite

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
)

// The suite says what the store must do for the packages whose records it keeps. Each
// test has a database of its own.
func TestTheStorePassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"Receipts", receiptTests},
		{"Approvals", approvalTests},
		{"Keys", keyTests},
		{"Jobs", jobTests},
		{"Questions of jobs", questionTests},
		{"Jobs that wait", waitTests},
		{"Tokens", tokenTests},
		{"Artifacts", artifactTests},
		{"Elevations", elevationTests},
		{"Releases", releaseTests},
		{"Taints", taintTests},
		{"Spendings", spendingTests},
		{"Schedules", scheduleTests},
		{"Lessons of searches", lessonTests},
		{"Store", storeTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, test := range part.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					test.run(t, database(newPath(t)))
				})
			}
		})
	}
}

// database is the path of one.
type database string

// open opens the database again each time, as another process would. The store is
// closed when the test ends.
func (d database) open(t *testing.T) *Store { return open(t, string(d)) }

// execute executes an SQL statement without the store, for tests of tampering.
func (d database) execute(t *testing.T, statement string) { execute(t, string(d), statement) }

type test struct {
	name string
	run  func(t *testing.T, d database)
}

// start is the current time in most tests. Stores keep times with a precision of at
// least a microsecond, so tests use none finer.
var start = time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)

// racers is the number of goroutines that compete in a race that one may win. Half of
// them use the database through one handle, half through another.
const racers = 16

// race calls f concurrently from many goroutines with two handles of b, and returns the
// number of calls that won.
func race(t *testing.T, d database, f func(s *Store, racer int) (won bool)) int {
	t.Helper()
	handles := []*Store{d.open(t), d.open(t)}
	var mu sync.Mutex
	wins := 0
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for racer := range racers {
		wg.Go(func() {
			<-begin
			if f(handles[racer%len(handles)], racer) {
				mu.Lock()
				defer mu.Unlock()
				wins++
			}
		})
	}
	close(begin)
	wg.Wait()
	return wins
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t *testing.T, what string, err error, code toolroom.Code) {
	t.Helper()
	if err == nil || toolroom.CodeOf(err) != code {
		t.Errorf("%s: error %v with code %q, want %q", what, err, toolroom.CodeOf(err), code)
	}
}

var storeTests = []test{
	{"closing twice does nothing", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.Close())
		must(t, s.Close())
	}},
	{"a closed store fails", func(t *testing.T, d database) {
		s := d.open(t)
		must(t, s.Close())
		if _, err := s.Tokens(t.Context()); err == nil {
			t.Error("a closed store lists tokens")
		}
		if err := s.CreateToken(t.Context(), newToken("a")); err == nil {
			t.Error("a closed store takes a token")
		}
	}},
	{"an ended context ends reads and writes", func(t *testing.T, d database) {
		s := d.open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Tokens(ctx)
		wantCode(t, "read", err, toolroom.CodeCancelled)
		wantCode(t, "write", s.CreateToken(ctx, newToken("a")), toolroom.CodeCancelled)
		wantCode(t, "transaction", s.AppendReceipts(ctx, receipts("a")), toolroom.CodeCancelled)
	}},
}
