//go:build unix

package guest

import (
	"os/exec"
	"sync"
)

// children are the processes that a guest has started. If the guest is the first
// process of its namespace, it also reaps orphans: a process that has ended and is
// not waited for still counts as a process.
type children struct {
	mu  sync.Mutex
	own map[int]bool
}

// start starts a process; the caller must call [children.wait].
func (c *children) start(cmd *exec.Cmd) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if c.own == nil {
		c.own = map[int]bool{}
	}
	c.own[cmd.Process.Pid] = true
	return nil
}

// wait waits until the process has ended; cmd.ProcessState says how.
func (c *children) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	c.mu.Lock()
	delete(c.own, cmd.Process.Pid)
	c.mu.Unlock()
	c.reap()
}
