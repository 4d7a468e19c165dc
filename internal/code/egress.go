package code

import (
	"context"
	"net"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/egress"
)

// maxHosts is how many hosts a program may name.
const maxHosts = 64

// hosts are those that a program is to reach, each with a port: one without means
// 443 and 80.
func (r *Request) hosts() ([]string, error) {
	if len(r.Egress) > maxHosts {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "egress names %d hosts, and may name %d", len(r.Egress), maxHosts)
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
					WithHint("write a host, *.domain or address, each with :port or for 443 and 80")
			}
		}
		all = append(all, with...)
	}
	return all, nil
}

// reaches are the effects of a program that names hosts, and of one whose profile
// leaves the network open.
func (r *Request) reaches() []toolroom.Effect {
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

// SetEgress puts a guard in force for the programs that begin from now on, in
// place of [Options.Egress].
func (s *Service) SetEgress(g *egress.Guard) { s.egress.Store(g) }

// tellRefused tells who watches the run that a connection was refused.
func (h *host) tellRefused(c toolroom.RefusedConnection) {
	h.Log("warning", "a connection was refused: "+c.Reason, bridge.Map{{Key: "address", Value: strings.ToValidUTF8(c.Address, "\uFFFD")}})
}

// dial is how a program connects to hosts: to those alone, and of those to what
// the config lets programs reach. It is nil for a program without any.
func (s *Service) dial(hosts []string) (func(context.Context, string) (net.Conn, error), error) {
	if len(hosts) == 0 {
		return nil, nil
	}
	guard, err := s.egress.Load().Within(hosts)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "egress: %w", err)
	}
	return guard.Tunnel, nil
}
