//go:build unix

package guest

import (
	"os/exec"
	"time"
)

// idle is how long a guest may be without a program before it takes it that none
// is near: it then waits in a pool.
const idle = 50 * time.Millisecond

// rehearse starts a shell that does nothing, unless start is closed soon. What
// the sandbox does once, at the first process in it, is then not in the time of
// the program: under gVisor that is some 10 ms of 25.
func rehearse(start <-chan struct{}) {
	select {
	case <-start:
	case <-time.After(idle):
		cmd := exec.Command("sh", "-c", ":")
		cmd.SysProcAttr = childAttributes()
		_ = cmd.Run() // a sandbox without a shell runs other things
	}
}
