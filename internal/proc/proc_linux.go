package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const closeOnExec = syscall.SOCK_CLOEXEC

func newProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// ownerVariable is the environment variable that labels children.
const ownerVariable = "TOOLROOM_OWNER"

// ownerForm matches the names that Owner returns.
const ownerForm = "[0-9]+-[0-9]+"

// Owner returns a unique name of this process: its pid and start time. No later process
// can have the same name.
func Owner() string {
	pid := os.Getpid()
	return fmt.Sprintf("%d-%s", pid, startTime(pid))
}

// Alive reports whether the process named by owner still runs.
func Alive(owner string) bool {
	pid, started, ok := parseOwner(owner)
	return ok && startTime(pid) == started
}

func parseOwner(owner string) (pid int, started string, ok bool) {
	pidText, started, ok := strings.Cut(owner, "-")
	pid, err := strconv.Atoi(pidText)
	return pid, started, ok && err == nil && started != ""
}

// startTime returns the time at which a process started, in clock ticks since boot: field
// 22 of /proc/PID/stat (proc(5)). It returns "" if there is no such process.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command, field 2, is in parentheses and may contain any characters.
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	fields := strings.Fields(string(after))
	const startField = 22 - 3
	if len(fields) <= startField || fields[0] == "Z" {
		return ""
	}
	return fields[startField]
}

// Sweep kills the processes left behind by Toolroom processes that have ended, and returns
// their number. It can only find and kill processes of this user.
func Sweep() int { return killAll(Orphans()) }

// Orphans returns the processes that [Sweep] would kill.
func Orphans() []Orphan {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	return orphans(environs)
}

// Kill kills the process.
func (o Orphan) Kill() error { return syscall.Kill(o.PID, syscall.SIGKILL) }

func killAll(list []Orphan) int {
	ended := 0
	for _, o := range list {
		if o.Kill() == nil {
			ended++
		}
	}
	return ended
}

// orphans returns the orphans among the processes of the given /proc/PID/environ files.
func orphans(environs []string) []Orphan {
	var list []Orphan
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		owner, _ := lookup(environ, ownerVariable)
		// Ignore a label that Owner cannot have made.
		if _, _, ours := parseOwner(owner); !ours || Alive(owner) {
			continue
		}
		folder := filepath.Dir(path)
		// Any user can label a process, also one that runs with more rights (setuid).
		if !isOfThisUser(folder) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(folder, "comm")) // shown to people
		list = append(list, Orphan{PID: pid, Command: strings.TrimSpace(string(command))})
	}
	return list
}

// isOfThisUser reports whether all user ids of the process with a /proc folder are this
// process's.
func isOfThisUser(folder string) bool {
	status, err := os.ReadFile(filepath.Join(folder, "status"))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(status, []byte("\nUid:"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	ids := strings.Fields(string(line))
	own := strconv.Itoa(os.Geteuid())
	return len(ids) == 4 && !slices.ContainsFunc(ids, func(id string) bool { return id != own })
}

func lookup(environ []byte, name string) (string, bool) {
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value), true
		}
	}
	return "", false
}

// peakMemory returns ru_maxrss, which Linux counts in KiB (getrusage(2)), in bytes.
func peakMemory(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}
