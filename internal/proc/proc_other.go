//go:build !linux

package proc

import (
	"os"
	"strconv"
	"syscall"
)

// Other systems than Linux have neither Pdeathsig nor /proc: children are killed when
// Toolroom stops, but not when it is killed.

const ownerVariable = "TOOLROOM_OWNER"

func lockThread() (unlock func()) { return func() {} }

// Owner returns the name of this process.
func Owner() string { return strconv.Itoa(os.Getpid()) }

// Alive reports whether the process named by owner still runs. It mistakes another process
// with the same id for it.
func Alive(owner string) bool {
	pid, err := strconv.Atoi(owner)
	if err != nil {
		return false
	}
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// Sweep does nothing on this system.
func Sweep() int { return 0 }

// Memory returns 0: the memory is unknown on this system.
func (p *Process) Memory() int64 { return 0 }

// Orphans returns nil on this system.
func Orphans() []Orphan { return nil }

// Kill does nothing: there are no orphans on this system.
func (o Orphan) Kill() error { return nil }
