//go:build unix

package guest

import (
	"os/exec"
	"sync"
)

// children are the processes that a guest has started. Where it is the first of
// its namespace, it also takes in those whose parents have gone: what has ended
// and nobody waits for counts as a process all the same.
type children struct {
	mu  sync.Mutex
	own map[int]bool
}

// start starts a process, which [children.wait] waits for.
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

// wait returns when a process has ended; its state says how.
func (c *children) wait(cmd *exec.Cmd) {
	_ = cmd.Wait()
	c.mu.Lock()
	delete(c.own, cmd.Process.Pid)
	c.mu.Unlock()
	c.reap()
}
