package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

func lockThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

func signalGroup(pid int, sig syscall.Signal) { _ = syscall.Kill(-pid, sig) }

// ownerVariable marks children in their environment.
const ownerVariable = "TOOLROOM_OWNER"

// Owner names this process so that no later one can be taken for it: pid and
// start time.
func Owner() string {
	pid := os.Getpid()
	return fmt.Sprintf("%d-%s", pid, startTime(pid))
}

// Alive reports whether the process that an owner names still runs.
func Alive(owner string) bool {
	pid, started, ok := readOwner(owner)
	return ok && startTime(pid) == started
}

func readOwner(owner string) (pid int, started string, ok bool) {
	pidText, started, ok := strings.Cut(owner, "-")
	pid, err := strconv.Atoi(pidText)
	return pid, started, ok && err == nil && started != ""
}

// startTime is when a process started, in clock ticks since boot: field 22 of
// /proc/PID/stat (proc(5)). It is empty when there is no such process.
func startTime(pid int) string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	// The command, field 2, is in parentheses and may hold anything.
	after := stat[bytes.LastIndexByte(stat, ')')+1:]
	fields := strings.Fields(string(after))
	const startField = 22 - 3
	if len(fields) <= startField || fields[0] == "Z" {
		return ""
	}
	return fields[startField]
}

// Sweep ends the processes that a Toolroom process which no longer runs has
// left behind, and returns how many there were. Only processes of this user
// can be seen and ended.
func Sweep() int { return end(Orphans()) }

// Orphans are the processes that [Sweep] would end.
func Orphans() []Orphan {
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	return orphans(environs)
}

// Kill ends the process.
func (o Orphan) Kill() error { return syscall.Kill(o.PID, syscall.SIGKILL) }

func end(list []Orphan) int {
	ended := 0
	for _, o := range list {
		if o.Kill() == nil {
			ended++
		}
	}
	return ended
}

// orphans looks at the processes of the given /proc/PID/environ files.
func orphans(environs []string) []Orphan {
	var list []Orphan
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		owner, _ := lookup(environ, ownerVariable)
		// A mark that Owner cannot have made says nothing of who died.
		if _, _, ours := readOwner(owner); !ours || Alive(owner) {
			continue
		}
		folder := filepath.Dir(path)
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(folder, "comm")) // for people
		list = append(list, Orphan{PID: pid, Command: strings.TrimSpace(string(command))})
	}
	return list
}

func lookup(environ []byte, name string) (string, bool) {
	for _, entry := range bytes.Split(environ, []byte{0}) {
		if value, ok := bytes.CutPrefix(entry, []byte(name+"=")); ok {
			return string(value), true
		}
	}
	return "", false
}

// peakMemory is ru_maxrss, which Linux counts in KiB (getrusage(2)).
func peakMemory(state *os.ProcessState) int64 {
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		return usage.Maxrss << 10
	}
	return 0
}
