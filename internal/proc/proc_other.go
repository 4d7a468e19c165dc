//go:build !linux

package proc

// Other systems than Linux have neither Pdeathsig nor /proc: children are killed when
// Toolroom stops, but not when it is killed.

const ownerVariable = "TOOLROOM_OWNER"

func lockThread() (unlock func()) { return func() {} }

// Sweep does nothing on this system.
func Sweep() int { return 0 }

// Memory returns 0: the memory is unknown on this system.
func (p *Process) Memory() int64 { return 0 }

// Orphans returns nil on this system.
func Orphans() []Orphan { return nil }

// Kill does nothing: there are no orphans on this system.
func (o Orphan) Kill() error { return nil }
