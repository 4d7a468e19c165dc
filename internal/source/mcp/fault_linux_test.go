package mcp_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

// pidOf asks a server on stdio for its process.
func pidOf(t *testing.T, s *mcp.Source) int {
	t.Helper()
	out, err := call(t.Context(), s, "pid", nil)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(out.Content[0].Text, &pid); err != nil {
		t.Fatal(err)
	}
	return pid
}

// stop stops a process and waits until it stands still.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			return
		}
		runtime.Gosched()
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// Not parallel: it counts the descriptors of the process.
func TestAKilledServerIsStartedAgainAndLeavesNothing(t *testing.T) {
	s := odd(t, "normal")
	pidOf(t, s)
	before := descriptors(t)
	const times = 20
	for range times {
		pid := pidOf(t, s)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		// The call may still meet the dying one; the one after may not.
		_, _ = call(t.Context(), s, "pid", nil)
		if again := pidOf(t, s); again == pid {
			t.Fatalf("process %d answers after its death", pid)
		}
		for syscall.Kill(pid, 0) == nil { // until it is waited for
			runtime.Gosched()
		}
	}
	if after := descriptors(t); after > before+2 {
		t.Errorf("%d descriptors before, %d after %d deaths", before, after, times)
	}
	t.Logf("%d servers killed, descriptors %d before and %d after", times, before, descriptors(t))
}

func TestAStoppedServerTimesOutAndServesOnWhenItContinues(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	pid := pidOf(t, s)
	stop(t, pid)
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, err := call(ctx, s, "pid", nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
			t.Errorf("a call of a stopped server: %v", err)
		}
		cancel()
	}
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if again := pidOf(t, s); again != pid {
		t.Errorf("the server was started again as %d, though it only paused", again)
	}
}

func TestAServerThatStaysStoppedIsGivenUp(t *testing.T) {
	t.Parallel()
	s := odd(t, "normal")
	pid := pidOf(t, s)
	stop(t, pid)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _ = call(ctx, s, "pid", nil)
	// The call below waits for the answer that never comes, and fails when the
	// server is given up; the next one has a new server.
	_, _ = call(t.Context(), s, "pid", nil)
	if again := pidOf(t, s); again == pid {
		t.Errorf("the stopped server %d answers", pid)
	}
}

func TestAnUnusedServerIsEndedAndSaysWhatItHolds(t *testing.T) {
	t.Parallel()
	s := mcp.New(mcp.Config{
		Namespace: "odd", Command: os.Args[0], Owner: "test", Idle: 2 * time.Second,
		Env: func(context.Context) ([]string, error) {
			return append(os.Environ(), serverVariable+"=chatty"), nil
		},
	})
	defer s.Close()
	pid := pidOf(t, s)
	d := s.Describe()
	for d.Process == nil || d.Process.Memory <= 0 { // on a slow machine it has ended already
		pid = pidOf(t, s)
		d = s.Describe()
	}
	if d.Process.PID != pid || !strings.Contains(d.Process.Stderr, "Server version") {
		t.Errorf("the source says %+v", d.Process)
	}
	for syscall.Kill(pid, 0) == nil {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the server is still there")
		}
	}
	if d := s.Describe(); d.State != "idle" || d.Process != nil {
		t.Errorf("the source says %+v", d)
	}
}

func TestEachIdentityHasItsOwnConnectionWhereCredentialsDiffer(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	s := mcp.New(mcp.Config{
		Namespace: "odd", URL: r.URL + "/mcp",
		Auth: func(string) *oauth.Client {
			return oauth.New(oauth.Config{Resource: r.URL + "/mcp"}, &loginStore{}, nil)
		},
	})
	defer s.Close()
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			_, err := s.Call(t.Context(), &source.Request{
				Tool: toolroom.ID{Namespace: "odd", Name: "odd"}, Emit: func(toolroom.Event) {},
				Ask: host{}, Identity: toolroom.Identity{Subject: fmt.Sprint("user", i%3)},
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := r.starts.Load(); n != 3 {
		t.Errorf("three callers have %d sessions", n)
	}
}
