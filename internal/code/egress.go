package code

import (
	"context"
	"net"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/egress"
)

// maxHosts is the number of hosts that a program may name.
const maxHosts = 64

// hosts returns the hosts that a program may reach, each with a port. A host without one
// means ports 443 and 80.
func (r *Request) hosts() ([]string, error) {
	if len(r.Egress) > maxHosts {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "egress names %d hosts; the maximum is %d", len(r.Egress), maxHosts)
	}
	var all []string
	for _, entry := range r.Egress {
		with := []string{entry}
		if _, _, err := net.SplitHostPort(entry); err != nil {
			host := strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]")
			with = []string{net.JoinHostPort(host, "443"), net.JoinHostPort(host, "80")}
		}
		for _, one := range with {
			if err := egress.CheckEntry(one); err != nil {
				return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "egress: %q is not a host that a program can reach: %w", entry, err).
					WithHint("write a host, *.domain or address, each with :port, or without for ports 443 and 80")
			}
		}
		all = append(all, with...)
	}
	return all, nil
}

// networkEffects returns the effects of a program that names hosts, or whose profile does not
// restrict the network.
func (r *Request) networkEffects() []toolroom.Effect {
	hosts, err := r.hosts()
	if err != nil || r.Profile == "dev" && len(hosts) == 0 {
		hosts = []string{""} // any
	}
	var effects []toolroom.Effect
	for _, host := range hosts {
		effects = append(effects, toolroom.Effect{Kind: toolroom.EffectHost, Mode: "connect", Target: host}, toolroom.Effect{Kind: toolroom.EffectSend, Target: host})
	}
	return effects
}

// NetworkEffects returns the effects of a function that names hosts.
func NetworkEffects(hosts []string) []toolroom.Effect {
	return (&Request{Program: toolroom.Program{Egress: hosts}}).networkEffects()
}

// SetEgress replaces [Options.Egress] for programs that start from now on.
func (s *Service) SetEgress(g *egress.Guard) { s.egress.Store(g) }

// reportRefused reports a refused connection to the observers of the run.
func (h *handler) reportRefused(c toolroom.RefusedConnection) {
	h.Log("warning", "a connection was refused: "+c.Reason, bridge.Map{{Key: "address", Value: strings.ToValidUTF8(c.Address, "\uFFFD")}})
}

// newDial returns a function that makes a program's connections: only to its hosts, and only
// to those that the config permits. It returns nil if the program names no hosts.
func (s *Service) newDial(hosts []string) (func(context.Context, string) (net.Conn, error), error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	guard, err := s.egress.Load().Within(hosts)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "egress: %w", err)
	}
	return guard.Tunnel, nil
}
