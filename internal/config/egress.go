package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom/internal/egress"
)

// Egress sets which hosts sources may reach: the section "egress" for all sources, and that
// of a source for it alone. The entries of both apply together; Mode and Proxy of a source
// override those for all.
type Egress struct {
	// Mode is public (the default: public addresses and those in Allow) or closed (only
	// those in Allow).
	Mode string `yaml:"mode,omitempty"`
	// Allow and Deny list hosts, *.domains (either with :port), addresses, blocks like
	// 10.0.0.0/8 and classes such as loopback or private. Deny always wins.
	Allow []string `yaml:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty"`
	// Proxy is the URL of a proxy. Proxies of the environment are ignored.
	Proxy string `yaml:"proxy,omitempty"`
	// Network is the network of programs (MCP servers on stdio and command-line programs):
	// that of this machine (host, the default), one whose only way out is a proxy that
	// enforces this section (guarded), or none.
	Network string `yaml:"network,omitempty"`
}

// Values of Egress.Network.
const (
	NetworkHost    = "host"
	NetworkGuarded = "guarded"
	NetworkNone    = "none"
)

// NetworkOf returns the network of a source's program, or "" if the source has none, or one
// in a sandbox.
func (c *Config) NetworkOf(s Source) string {
	if !s.Program() || s.Sandbox != nil {
		return ""
	}
	return cmp.Or(s.Egress.Network, c.Egress.Network)
}

// Values of Egress.Mode.
const (
	egressPublic = "public"
	egressClosed = "closed"
)

// Policy combines e with the source's own section.
func (e Egress) Policy(own Egress) egress.Policy {
	own.Mode = cmp.Or(own.Mode, e.Mode)
	own.Proxy = cmp.Or(own.Proxy, e.Proxy)
	return egress.Policy{
		Closed: own.Mode == egressClosed,
		Allow:  slices.Concat(e.Allow, own.Allow),
		Deny:   slices.Concat(e.Deny, own.Deny),
		Proxy:  own.Proxy,
	}
}

func (c checker) checkEgress(key string, e Egress) {
	c.requireOneOfOrEmpty(key+".mode", e.Mode, egressPublic, egressClosed)
	c.requireOneOfOrEmpty(key+".network", e.Network, NetworkHost, NetworkGuarded, NetworkNone)
	c.checkEgressEntries(key+".allow", e.Allow)
	c.checkEgressEntries(key+".deny", e.Deny)
	if e.Proxy != "" {
		if err := egress.CheckProxy(e.Proxy); err != nil {
			c.addProblem(key+".proxy", err.Error(), "")
		}
	}
}

// checkEgressWithoutNetwork checks the section of what is no program of a source. instead says
// what determines its network.
func (c checker) checkEgressWithoutNetwork(key string, e Egress, instead string) {
	c.checkEgress(key, e)
	if e.Network != "" {
		c.addProblem(key+".network", "it applies only to programs of sources", "remove it: "+instead)
	}
}

func (c checker) checkEgressEntries(key string, entries []string) {
	for i, entry := range entries {
		c.checkEgressEntry(fmt.Sprintf("%s[%d]", key, i), entry)
	}
}

func (c checker) checkEgressEntry(key, entry string) {
	if err := egress.CheckEntry(entry); err != nil {
		c.addProblem(key, err.Error(), "")
	}
}
