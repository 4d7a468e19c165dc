//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// locked is a guest that locks itself and reports which operations are refused.
func locked() int {
	// Threads that exist before the lock are locked, too.
	const threads = 4
	var ready, done sync.WaitGroup
	locked := make(chan struct{})
	opened := make([]error, threads)
	for i := range threads {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-locked
			_, opened[i] = syscall.Open("/dev/null", syscall.O_RDONLY, 0)
		})
	}
	ready.Wait()
	if err := LockSelf(Lock{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	close(locked)
	done.Wait()

	_, mapErr := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	_, socketErr := net.Dial("unix", "/x")
	_, _, forkErr := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	results := map[string]error{
		"open":        func() error { _, err := os.Open("/dev/null"); return err }(),
		"execute":     exec.Command("/bin/true").Run(),
		"socket":      socketErr,
		"fork":        forkErr,
		"signal":      syscall.Kill(1, 0),
		"tgkill":      unix.Tgkill(os.Getpid()+1, 1, 0),
		"ioctl":       func() error { _, err := unix.IoctlGetTermios(0, unix.TCGETS); return err }(),
		"new code":    mapErr,
		"lock again":  LockSelf(Lock{}),
		"old threads": errors.Join(opened...),
	}
	refused := map[string]bool{}
	for name, err := range results {
		refused[name] = errors.Is(err, unix.EPERM)
	}
	refused["every old thread"] = !slices.Contains(opened, nil)

	// Computing still works.
	var sum sync.WaitGroup
	for range 50 {
		sum.Go(func() {
			garbage := make([][]byte, 100)
			for i := range garbage {
				garbage[i] = make([]byte, 1<<16)
			}
			time.Sleep(time.Millisecond)
			runtime.GC()
		})
	}
	sum.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(refused); err != nil {
		return 1
	}
	return 0
}

// compiling is a guest that locks itself as a compiler does, and tries the ways to
// make memory executable.
func compiling() int {
	if err := LockSelf(Lock{Code: true}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	const both = unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC
	anonymous := func(prot int) ([]byte, error) {
		return unix.Mmap(-1, 0, 4096, prot, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	}
	_, mapped := anonymous(both)
	page, err := anonymous(unix.PROT_READ | unix.PROT_WRITE)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	changed := unix.Mprotect(page, both)
	turned := unix.Mprotect(page, unix.PROT_READ|unix.PROT_EXEC)
	fmt.Println(errors.Is(mapped, unix.EPERM), errors.Is(changed, unix.EPERM), turned)
	return 0
}

func TestMemoryOfACompilerIsNeverWritableAndExecutable(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if o := do(t, s, task{Guest: []string{"compiling"}, Direct: true}); o.Stdout != "true true <nil>\n" || o.Exit.Code != 0 {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestALockedWorkerCanOnlyCompute(t *testing.T) {
	t.Parallel()
	for _, s := range setups {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			o := do(t, s, task{Guest: []string{"locked"}, Direct: true})
			var refused map[string]bool
			if err := json.Unmarshal([]byte(o.Stdout), &refused); err != nil || o.Exit.Code != 0 {
				t.Fatalf("%v: %+v", err, o)
			}
			if len(refused) != 11 {
				t.Errorf("%d answers", len(refused))
			}
			for name, ok := range refused {
				if !ok {
					t.Errorf("%s is not refused", name)
				}
			}
		})
	}
}
