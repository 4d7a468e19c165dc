package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/receipt"
)

// If the environment variable childPath is set, the test binary appends receipts to that
// database: as many as childCount, or without end if it is 0.
const (
	childPath  = "TOOLROOM_TEST_CHILD"
	childCount = "TOOLROOM_TEST_COUNT"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path, os.Getenv(childCount)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestProcessesThatOpenANewFileAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	const processes, rounds, each = 4, 5, 20
	for range rounds {
		path := newPath(t)
		var wg sync.WaitGroup
		for range processes {
			wg.Go(func() {
				if out, err := childProcess(t, path, each).CombinedOutput(); err != nil {
					t.Errorf("a process failed: %v\n%s", err, out)
				}
			})
		}
		wg.Wait()
		if n, err := open(t, path).VerifyReceipts(t.Context(), nil); err != nil || n != processes*each {
			t.Errorf("%d receipts, %v; want %d", n, err, processes*each)
		}
	}
}

func TestAcknowledgedReceiptsSurviveAKilledProcess(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	cmd := childProcess(t, path, 0)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	acknowledged := int64(0)
	for lines := bufio.NewScanner(stdout); acknowledged < 50 && lines.Scan(); {
		acknowledged++
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	n, err := open(t, path).VerifyReceipts(t.Context(), nil)
	if err != nil || n < acknowledged || acknowledged != 50 {
		t.Errorf("%d receipts, %v; %d were acknowledged, want 50 at least", n, err, acknowledged)
	}
}

func childProcess(t *testing.T, path string, count int) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path, fmt.Sprintf("%s=%d", childCount, count))
	return cmd
}

// child appends receipts one by one and prints the seq of each once it is durable.
func child(path, count string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	for n := 1; ; n++ {
		group := []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "a"}}}
		if err := s.AppendReceipts(ctx, group); err != nil {
			return err
		}
		fmt.Println(group[0].Seq)
		if fmt.Sprint(n) == count {
			return nil
		}
	}
}

func TestHandlesThatOpenANewFileAtOnceAllSucceed(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := newPath(t)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				s, err := Open(t.Context(), path, Options{})
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestFilesAreForTheirUserOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "folder", "toolroom.db")
	s := open(t, path)
	if err := s.AppendReceipts(t.Context(), []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "a"}}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		info, err := os.Stat(name)
		if err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: mode %v, %v; want 0700", info.Mode(), err)
	}
}

func TestAPathMayHaveAnyCharacters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a b%20?c#d&e=f", "é';.db")
	open(t, path)
	if _, err := os.Stat(path + "-wal"); err != nil {
		t.Errorf("the database is not at its path: %v", err)
	}
}

func TestEachWriteIsOnTheDiskWhenItReturns(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		if err := s.writer.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
		}
	}
}

func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	s := open(t, newPath(t))
	if _, err := s.reader.Exec("DELETE FROM receipts"); err == nil {
		t.Error("a reader deleted receipts")
	}
}

func TestDatabasesOfNewerVersionsAndOtherProgramsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		make func(t *testing.T, path string)
		code toolroom.Code
		want string
	}{
		"from a newer one": {func(t *testing.T, path string) {
			if err := open(t, path).Close(); err != nil {
				t.Fatal(err)
			}
			execute(t, path, "PRAGMA user_version = 1000")
		}, toolroom.CodeUnsupported, "has version 1000, and this toolroom knows versions up to"},
		"of another program, marked": {func(t *testing.T, path string) {
			execute(t, path, "PRAGMA application_id = 1; PRAGMA user_version = 1")
		}, toolroom.CodeUnsupported, "of another program"},
		"of another program, unmarked": {func(t *testing.T, path string) {
			execute(t, path, "CREATE TABLE receipts (id)")
		}, toolroom.CodeUnsupported, "of another program"},
		"no database": {func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
		}, toolroom.CodeInternal, "not a SQLite database"},
		"a folder": {func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		}, toolroom.CodeInternal, "is a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := newPath(t)
			tt.make(t, path)
			s, err := Open(t.Context(), path, Options{})
			if err == nil {
				t.Fatalf("opened: %v", s.Close())
			}
			wantExplained(t, err, path, tt.code, tt.want)
		})
	}
}

func TestALockedDatabaseIsReportedAndWaitedFor(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s, err := Open(t.Context(), path, Options{BusyTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	unlock := lock(t, path)
	group := []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "a"}}}
	err = s.AppendReceipts(t.Context(), group)
	wantExplained(t, err, path, toolroom.CodeInternal, "another process keeps the database locked")
	if !toolroom.AsError(err).Retryable {
		t.Error("a lock is not reported as passing")
	}
	if group[0].Seq != 0 {
		t.Error("a receipt that was not stored has a place in the chain")
	}
	if _, err := s.Receipts(t.Context(), toolroom.ReceiptQuery{}); err != nil {
		t.Errorf("reading while another writes: %v", err)
	}

	patient, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer patient.Close()
	done := make(chan error)
	go func() { done <- patient.AppendReceipts(t.Context(), group) }()
	unlock()
	if err := <-done; err != nil {
		t.Errorf("after the lock was gone: %v", err)
	}
}

func TestAFullDiskIsReportedAndRecoveredFrom(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	recorder := receipt.NewRecorder(s, receipt.RecorderOptions{Retry: time.Millisecond})
	record := func(n int) {
		for range n {
			if err := recorder.Append(t.Context(), &receipt.Draft{Receipt: toolroom.Receipt{ID: "call", Preview: strings.Repeat("x", 500)}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	record(10)
	if err := recorder.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}

	limitPages(t, s, 0) // to the current size
	record(1000)
	wantExplained(t, recorder.Flush(t.Context()), path, toolroom.CodeInternal, "the disk is full")
	wantExplained(t, recorder.Ready(), path, toolroom.CodeInternal, "the disk is full")

	limitPages(t, s, 1<<20)
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, err := s.VerifyReceipts(t.Context(), nil); n != 1010 || err != nil {
		t.Errorf("VerifyReceipts = %d, %v; want all 1010", n, err)
	}
}

func TestAReadOnlyFileIsReported(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	s := open(t, path)
	if _, err := s.writer.Exec("PRAGMA query_only = on"); err != nil {
		t.Fatal(err)
	}
	err := s.AppendReceipts(t.Context(), []*receipt.Draft{{Receipt: toolroom.Receipt{ID: "a"}}})
	wantExplained(t, err, path, toolroom.CodeInternal, "the file cannot be written")
}

func TestAnAnswerReachesACallInAnotherProcess(t *testing.T) {
	t.Parallel()
	path := newPath(t)
	here := approval.New(open(t, path), approval.Options{Poll: 10 * time.Millisecond})
	there := approval.New(open(t, path), approval.Options{})
	a, err := here.Request(t.Context(), toolroom.Approval{Digest: "d", Tool: "file:write"})
	if err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		a   *toolroom.Approval
		err error
	}
	waited := make(chan outcome)
	go func() {
		a, err := here.Wait(t.Context(), a.ID)
		waited <- outcome{a, err}
	}()
	if _, err := there.Answer(t.Context(), a.ID, toolroom.Answer{Approve: true, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if got := <-waited; got.err != nil || got.a.By != "ann" {
		t.Errorf("Wait = %+v, %v", got.a, got.err)
	}
}

func BenchmarkAppendReceipts(b *testing.B) {
	for _, size := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "toolroom.db"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			group := make([]*receipt.Draft, size)
			for i := range group {
				group[i] = &receipt.Draft{Receipt: toolroom.Receipt{
					ID: fmt.Sprintf("call_%d", i), Tool: "file:read", Surface: "mcp", Status: toolroom.StatusOK,
					Arguments: []byte(`{"path":"README.md"}`), Preview: strings.Repeat("x", 200), Started: time.Now(),
				}}
			}
			for b.Loop() {
				if err := s.AppendReceipts(b.Context(), group); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*size), "µs/receipt")
		})
	}
}

func newPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "toolroom.db")
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, Options{BusyTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// execute executes a statement with a connection of its own.
func execute(t *testing.T, path, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// lock holds the write lock until unlock is called.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func limitPages(t *testing.T, s *Store, pages int) {
	t.Helper()
	if _, err := s.writer.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", max(pages, 1))); err != nil {
		t.Fatal(err)
	}
}

// wantExplained checks that an error has the file, the reason and a hint.
func wantExplained(t *testing.T, err error, path string, code toolroom.Code, reason string) {
	t.Helper()
	if toolroom.CodeOf(err) != code {
		t.Fatalf("error %v has code %q, want %q", err, toolroom.CodeOf(err), code)
	}
	e := toolroom.AsError(err)
	if !strings.Contains(e.Message, path) || !strings.Contains(e.Message, reason) || e.Hints() == "" {
		t.Errorf("message %q, hint %q: want the path %s, %q and a hint", e.Message, e.Hints(), path, reason)
	}
}
