// Package netjail starts programs of the operator without access to the machine's network,
// but with its files and the usual rights, less what the policy's rules forbid. On Linux
// such a program runs in its own network namespace. The only way out is an HTTP proxy
// inside, which the server serves through an egress guard:
//
//	server ── clone into a namespace ──▶ launcher ([lockdown.JailMain])
//	   ▲                                   │ makes the proxy's socket inside,
//	   └── accepts on that socket ◀────────┘ hands it over, executes the program
//
// The environment variables HTTP_PROXY and HTTPS_PROXY tell the program about the proxy. A
// program that uses no proxy reaches nothing, not even a name server.
package netjail

import (
	"log/slog"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/restrict"
)

// Jail configures the network of a program.
type Jail struct {
	// Launcher is the command whose main calls [lockdown.JailMain]; a small binary starts
	// programs sooner. Without it nothing can be started.
	Launcher []string
	// Guard decides about every connection of the program; nil allows none.
	Guard *egress.Guard
	// HostNetwork leaves the program the machine's network. Guard is not used then.
	HostNetwork bool
	// Binds are mounted over what the program sees, in order, in its own mount namespace;
	// see package restrict.
	Binds []lockdown.Bind
	// Log receives refused connections; nil discards them.
	Log *slog.Logger
}

// startTimeout bounds the time until the program has been executed.
const startTimeout = 15 * time.Second

// WithRules returns a jail that also enforces the policy's rules about files, programs and
// hosts. A program that may use the machine's network has none but a proxy if there is a
// rule about hosts.
func (j Jail) WithRules(rules []toolroom.Effect, v restrict.View) (*Jail, error) {
	binds, err := restrict.Plan(rules, v)
	if err != nil {
		return nil, err
	}
	j.Binds = binds
	hosts := restrict.Hosts(rules)
	switch {
	case len(hosts) == 0:
		return &j, nil
	case slices.Contains(hosts, "*"):
		j.HostNetwork, j.Guard = false, nil
		return &j, nil
	case j.HostNetwork:
		if j.Guard, err = egress.New(egress.Policy{Allow: []string{"0.0.0.0/0", "::/0"}}); err != nil {
			return nil, err
		}
		j.HostNetwork = false
	case j.Guard == nil:
		return &j, nil
	}
	if j.Guard, err = j.Guard.Denying(hosts); err != nil {
		return nil, err
	}
	return &j, nil
}
