package vm

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// group is the cgroup of the guest and all programs.
const group = "/cgroup/guest"

// guestTasks are the threads of the guest itself, which Settings.PIDs does not count.
const guestTasks = 16

// serve runs the guest with stream as its stdin and stdout, and kills the processes
// that it leaves.
func (s Settings) serve(stream *os.File) (Report, error) {
	if err := s.makeGroup(); err != nil {
		return Report{}, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return Report{}, err
	}
	pid, err := s.start(stream, write)
	stream.Close()
	write.Close()
	if err != nil {
		return Report{}, fmt.Errorf("start the guest: %w", err)
	}
	tail := make(chan string, 1)
	go func() { tail <- lastOf(read) }()
	if s.CPU > 0 {
		go s.watchCPU(pid)
	}
	status := reap(pid)
	killAll(unix.SIGKILL, 0)
	report := Report{OOM: oomKills() > 0}
	select {
	case report.Stderr = <-tail:
	case <-time.After(time.Second): // a process that cannot be killed keeps the pipe open
	}
	if status.Signaled() {
		report.Signal = int(status.Signal())
	} else {
		report.Code = status.ExitStatus()
	}
	return report, nil
}

func (s Settings) makeGroup() error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	write := func(file, value string) error {
		if err := os.WriteFile(filepath.Join(group, file), []byte(value), 0); err != nil {
			return fmt.Errorf("limit the programs of the VM: %w", err)
		}
		return nil
	}
	if s.Memory > 0 {
		if err := write("memory.max", strconv.FormatInt(s.Memory, 10)); err != nil {
			return err
		}
	}
	if s.PIDs > 0 {
		if err := write("pids.max", strconv.Itoa(s.PIDs+guestTasks)); err != nil {
			return err
		}
	}
	if s.CPUs > 0 {
		const period = 100_000 // microseconds
		return write("cpu.max", fmt.Sprintf("%d %d", max(int(s.CPUs*period), 1000), period))
	}
	return nil
}

// start starts the guest in its root and its cgroup, without privileges and without a
// way to gain any.
func (s Settings) start(stream, stderr *os.File) (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, err
	}
	// Unprivileged programs cannot raise this limit again.
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}); err != nil {
		return 0, err
	}
	cgroup, err := os.Open(group)
	if err != nil {
		return 0, err
	}
	defer cgroup.Close()
	return syscall.ForkExec(GuestPath, append([]string{"toolroom-guest"}, s.Args...), &syscall.ProcAttr{
		Dir: WorkDir, Env: s.Env, Files: []uintptr{stream.Fd(), stream.Fd(), stderr.Fd()},
		Sys: &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: UID, Gid: UID}, Setsid: true,
			UseCgroupFD: true, CgroupFD: int(cgroup.Fd()),
		},
	})
}

// reap waits for every process that ends, until the guest has ended.
func reap(guest int) unix.WaitStatus {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == guest || err != nil && err != unix.EINTR {
			return status
		}
	}
}

// lastOf reads r to its end and returns the last bytes.
func lastOf(r io.Reader) string {
	const limit = 8 << 10
	var kept []byte
	buf := make([]byte, limit)
	for {
		n, err := r.Read(buf)
		kept = append(kept, buf[:n]...)
		if over := len(kept) - limit; over > 0 {
			kept = append(kept[:0], kept[over:]...)
		}
		if err != nil {
			return string(bytes.ToValidUTF8(kept, []byte("?")))
		}
	}
}

// watchCPU kills all programs when together they have used their time. It spares the
// guest, which reports it.
func (s Settings) watchCPU(guest int) {
	const step = 20 * time.Millisecond
	for counter("cpu.stat", "usage_usec") < s.CPU.Microseconds() {
		time.Sleep(step)
	}
	killAll(unix.SIGXCPU, guest)
	time.Sleep(500 * time.Millisecond)
	for { // what forks while it is killed leaves processes that were not in the list
		killAll(unix.SIGKILL, guest)
		time.Sleep(step)
	}
}

func oomKills() int64 { return counter("memory.events", "oom_kill") }

// counter reads a line "NAME NUMBER" of a file of the cgroup.
func counter(file, name string) int64 {
	text, _ := os.ReadFile(filepath.Join(group, file))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}

// killAll signals every process of the cgroup except one.
func killAll(signal syscall.Signal, but int) {
	text, _ := os.ReadFile(filepath.Join(group, "cgroup.procs"))
	for line := range strings.Lines(string(text)) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid != but {
			_ = unix.Kill(pid, signal)
		}
	}
}
