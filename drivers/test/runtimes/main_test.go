//go:build integration

// Package runtimes runs the suite of sandbox drivers against real engines, each
// started by its test in a folder of its own.
package runtimes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// made holds the files that all tests share: the guest, the default image and its root.
var made struct{ guest, archive, root string }

func TestMain(m *testing.M) {
	if text := os.Getenv(victimEnv); text != "" {
		var v victim
		err := json.Unmarshal([]byte(text), &v)
		if err == nil {
			err = v.live()
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if text := os.Getenv(strangerEnv); text != "" {
		os.Exit(stranger(text))
	}
	// The suite's secret of the host machine, which guests must not see. It is set here,
	// because the tests of drivers run in parallel.
	os.Setenv("TOOLROOM_SUITE_CANARY", "the server's secret")
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "toolroom-runtimes-")
		if err == nil {
			defer os.RemoveAll(folder)
			err = build(folder)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// passes runs the suites of a driver, which has a row in the table of the docs.
func passes(t *testing.T, line string, o sandboxtest.Options, possible map[string]string) {
	t.Helper()
	sandboxtest.Documented(t, "../../../docs/runtimes.md", line, o.New(t).Probe(t.Context()))
	sandboxtest.Escape(t, o, possible)
	sandboxtest.Run(t, o)
	t.Run("a guest that breaks the rules", func(t *testing.T) { sandboxtest.Rogue(t, o) })
}

// build builds the files that all tests share, as `make build` and `toolroom image build` do.
func build(folder string) error {
	if err := os.Chmod(folder, 0o755); err != nil { // guests are nobody
		return err
	}
	made.guest = filepath.Join(folder, "toolroom-guest")
	compile := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", made.guest, "github.com/toolroom/toolroom/sandbox/sandboxtest/escape/guest")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("build the guest: %w: %s", err, out)
	}
	made.archive, made.root = filepath.Join(folder, "image.tar"), filepath.Join(folder, "root")
	file, err := os.Create(made.archive)
	if err != nil {
		return err
	}
	defer file.Close()
	o := image.Options{Guest: made.guest, Log: os.Stderr}
	return image.Build(context.Background(), o, func(tree *image.Tree) error {
		return errors.Join(tree.Write(file), tree.Unpack(made.root))
	})
}

// program returns the path of a program of an engine. If it is missing, the test is skipped,
// or fails in CI, where all must be installed.
func program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not there: scripts/engines.sh installs it (%s)", name, pkg)
	}
	t.Skipf("%s is not there: scripts/engines.sh installs it (%s)", name, pkg)
	return ""
}

// daemon starts an engine, waits until its socket responds, and stops it when the test ends.
func daemon(t testing.TB, socket string, command string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(filepath.Dir(socket), filepath.Base(command)+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(command, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s said:\n%s", filepath.Base(command), text[max(0, len(text)-4000):])
		}
	})
	for range 600 {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s ended at its start: %s", command, text)
		case <-time.After(100 * time.Millisecond):
		}
	}
	t.Fatalf("%s does not listen at %s after a minute", command, socket)
}

// folder returns a temporary folder whose path is short enough for sockets, on a file system
// that supports overlays.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tr-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("what the engine left cannot be removed: %v", err)
		}
	})
	return dir
}

// small returns a folder on a file system of its own with a size in bytes.
func small(t testing.TB, size int) string {
	t.Helper()
	dir := folder(t)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", size)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill fills the file system of a folder with one file, and returns the file's path.
func fill(t testing.TB, dir string) string {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return f.Name()
}

// deadOwner is the mark of a process that has ended.
func deadOwner(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	owner := fmt.Sprintf("%d-1", cmd.Process.Pid)
	if proc.Alive(owner) {
		t.Fatalf("%s is alive", owner)
	}
	return owner
}
