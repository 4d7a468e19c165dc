//go:build integration

package runtimes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/sandbox"
)

// slowRuntime is a runc that creates the file begun and waits for the file go before it
// creates a container.
func slowRuntime(t *testing.T) (path, begun, goOn string) {
	t.Helper()
	dir := folder(t)
	path, begun, goOn = filepath.Join(dir, "slowrunc"), filepath.Join(dir, "begun"), filepath.Join(dir, "go")
	script := fmt.Sprintf(`#!/bin/sh
case " $* " in
*" create "*)
	touch %s
	while [ ! -e %s ]; do sleep 0.05; done ;;
esac
exec %s "$@"
`, begun, goOn, program(t, "runc", "runc"))
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return path, begun, goOn
}

// shims returns the processes of a daemon's shims, found by the daemon's socket.
func shims(t *testing.T, socket string) []int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, path := range lines {
		text, _ := os.ReadFile(path) // it may have ended
		program, rest, _ := strings.Cut(string(text), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && strings.Contains(program, "containerd-shim") && strings.Contains(rest, socket) {
			found = append(found, pid)
		}
	}
	return found
}

// When a warm pool is closed, it cancels the current start. The daemon may end right after
// it, and then cannot clean up.
func TestNothingStaysOfAContainerWhoseStartIsCancelledWhileItsTaskIsMade(t *testing.T) {
	t.Parallel()
	runtime, begun, goOn := slowRuntime(t)
	var socket string
	t.Run("until the daemon ends", func(t *testing.T) {
		socket = containerdEngine(t)
		d := containerdDriver(t, containerd.Options{Address: socket, Runtime: runtime})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := d.Start(ctx, sandbox.Spec{Run: "run", Guest: made.guest})
			ended <- err
		}()
		for begins := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(begun); err == nil {
				break
			}
			if time.Since(begins) > time.Minute {
				t.Fatal("runc is not told to create a container")
			}
		}
		cancel()
		// A start that does not wait for runc has ended by then.
		time.AfterFunc(time.Second, func() { _ = os.WriteFile(goOn, nil, 0o600) })
		if err := <-ended; err == nil {
			t.Error("it started all the same")
		}
		if left := containerdLeftovers(t, socket); len(left) > 0 {
			t.Errorf("there is left %v", left)
		}
	})
	var left []int
	for range 200 { // a shim ends with a short delay
		if left = shims(t, socket); len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("the shims %v stay", left)
	for _, pid := range left {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
