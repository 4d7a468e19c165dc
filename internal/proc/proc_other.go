//go:build !linux

package proc

import (
	"os"
	"strconv"
	"syscall"
)

// Outside Linux there is neither a parent-death signal nor /proc: children are
// ended when Toolroom stops, but not when it is killed.

const ownerVariable = "TOOLROOM_OWNER"

func lockThread() (unlock func()) { return func() {} }

// Owner names this process.
func Owner() string { return strconv.Itoa(os.Getpid()) }

// Alive reports whether the process that an owner names still runs. A process
// id that was taken anew is mistaken for it.
func Alive(owner string) bool {
	pid, err := strconv.Atoi(owner)
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// Sweep does nothing here.
func Sweep() int { return 0 }

// Memory is not known on this system.
func (p *Process) Memory() int64 { return 0 }

// Orphans are not looked for here.
func Orphans() []Orphan { return nil }

// Kill has nothing to end: there are no orphans here.
func (o Orphan) Kill() error { return nil }
