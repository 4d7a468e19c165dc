package room

import (
	"fmt"
	"os/exec"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/fence"
	"github.com/toolroom/toolroom/internal/proc"
)

// starter starts the programs of a source with the network that the config gives
// them.
func (r *Room) starter(network string, guard *egress.Guard) func(proc.Spec) (*proc.Process, error) {
	f := &fence.Fence{Helper: r.o.Helper, Log: r.log}
	switch network {
	case config.NetworkGuarded:
		f.Guard = guard
	case config.NetworkNone:
	default:
		return proc.Start
	}
	return f.Start
}

// checkNetwork says which programs have the network of this machine, and whether
// the others can be fenced off.
func (r *Room) checkNetwork() []Check {
	c := r.Config()
	unguarded, fenced := 0, 0
	for name, s := range c.Sources {
		switch network := c.NetworkOf(s); {
		case s.Disabled || network == "" || r.host(name) == nil:
		case network == config.NetworkHost:
			unguarded++
		default:
			fenced++
		}
	}
	var checks []Check
	if unguarded > 0 {
		checks = append(checks, Check{
			Name: "network of programs", Status: CheckInfo, Detail: fmt.Sprintf("%d of %d connect as they like: egress guards Toolroom's own connections", unguarded, unguarded+fenced),
			Fix: "write egress: {network: guarded}, for a source or for all, and see which of them know a proxy",
		})
	}
	if fenced > 0 {
		checks = append(checks, r.checkFence(fenced))
	}
	return checks
}

// checkFence tries a program that does nothing.
func (r *Room) checkFence(programs int) Check {
	c := Check{Name: "network guard", Status: CheckOK, Detail: fmt.Sprintf("%d programs run in a network namespace of their own", programs)}
	command, err := exec.LookPath("true")
	if err != nil {
		command = r.o.Helper
	}
	p, err := (&fence.Fence{Helper: r.o.Helper}).Start(proc.Spec{Command: command, Env: r.o.Environ, Owner: r.owner})
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "allow user namespaces, or write network: host for those programs"
		return c
	}
	p.Stop(0)
	return c
}
