package room

import (
	"fmt"
	"os/exec"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/netjail"
	"github.com/toolroom/toolroom/internal/proc"
)

// starter returns the function that starts a source's programs with the network that the
// config allows them.
func (r *Room) starter(network string, guard *egress.Guard) func(proc.Spec) (*proc.Process, error) {
	f := &netjail.Jail{Helper: r.o.Helper, Log: r.log}
	switch network {
	case config.NetworkGuarded:
		f.Guard = guard
	case config.NetworkNone:
	default:
		return proc.Start
	}
	return f.Start
}

// checkNetwork reports which programs use the network of this machine, and whether the
// others can be isolated from it.
func (r *Room) checkNetwork() []Check {
	c := r.Config()
	unguarded, fenced := 0, 0
	for name, s := range c.Sources {
		switch network := c.NetworkOf(s); {
		case s.Disabled || network == "" || r.manager(name) == nil:
		case network == config.NetworkHost:
			unguarded++
		default:
			fenced++
		}
	}
	var checks []Check
	if unguarded > 0 {
		checks = append(checks, Check{
			Name: "network of programs", Status: CheckInfo, Detail: fmt.Sprintf("%d of %d stdio servers have unrestricted network access", unguarded, unguarded+fenced),
			Fix: "set egress: {network: guarded}, for one source or for all, and check which of them support a proxy",
		})
	}
	if fenced > 0 {
		checks = append(checks, r.checkFence(fenced))
	}
	return checks
}

// checkFence starts a program that does nothing in a network jail.
func (r *Room) checkFence(programs int) Check {
	c := Check{Name: "network guard", Status: CheckOK, Detail: fmt.Sprintf("%d programs run in their own network namespace", programs)}
	command, err := exec.LookPath("true")
	if err != nil {
		command = r.o.Helper
	}
	p, err := (&netjail.Jail{Helper: r.o.Helper}).Start(proc.Spec{Command: command, Env: r.o.Environ, Owner: r.owner})
	if err != nil {
		c.Status, c.Detail, c.Fix = CheckFail, err.Error(), "allow user namespaces, or set network: host for those programs"
		return c
	}
	p.Stop(0)
	return c
}
