package config

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolroom/toolroom/internal/egress"
)

// Egress says which hosts sources may reach: the section "egress" for all of
// them, and that of a source for it alone. Entries of both are together in
// force; Mode and Proxy of a source replace those for all.
type Egress struct {
	// Mode is public (the default: public addresses and what Allow names) or
	// closed (what Allow names alone).
	Mode string `yaml:"mode,omitempty"`
	// Allow and Deny hold hosts, *.domains, either with :port, addresses,
	// blocks like 10.0.0.0/8 and classes such as loopback or private. Deny
	// always wins.
	Allow []string `yaml:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty"`
	// Proxy is the URL of a proxy; those of the environment are not used.
	Proxy string `yaml:"proxy,omitempty"`
	// Network is what programs (MCP servers on stdio, command-line programs) have
	// of the network: that of this machine (host, the default), one whose only
	// way out is a proxy that keeps to this section (guarded), or none.
	Network string `yaml:"network,omitempty"`
}

// What Egress.Network may say.
const (
	NetworkHost    = "host"
	NetworkGuarded = "guarded"
	NetworkNone    = "none"
)

// NetworkOf is the network of a source's program, empty for a source without
// one.
func (c *Config) NetworkOf(s Source) string {
	if s.CLI == nil && (s.MCP == nil || s.MCP.Command == "") {
		return ""
	}
	return cmp.Or(s.Egress.Network, c.Egress.Network)
}

// Modes of Egress.
const (
	egressPublic = "public"
	egressClosed = "closed"
)

// Policy is what e, narrowed or widened by the source's own section, says.
func (e Egress) Policy(own Egress) egress.Policy {
	fill(&own.Mode, e.Mode)
	fill(&own.Proxy, e.Proxy)
	return egress.Policy{
		Closed: own.Mode == egressClosed,
		Allow:  slices.Concat(e.Allow, own.Allow),
		Deny:   slices.Concat(e.Deny, own.Deny),
		Proxy:  own.Proxy,
	}
}

func (c check) egress(key string, e Egress) {
	if e.Mode != "" {
		c.oneOf(key+".mode", e.Mode, egressPublic, egressClosed)
	}
	if e.Network != "" {
		c.oneOf(key+".network", e.Network, NetworkHost, NetworkGuarded, NetworkNone)
	}
	c.egressEntries(key+".allow", e.Allow)
	c.egressEntries(key+".deny", e.Deny)
	if e.Proxy != "" {
		if err := egress.CheckProxy(e.Proxy); err != nil {
			c.problem(key+".proxy", err.Error(), "")
		}
	}
}

func (c check) egressEntries(key string, entries []string) {
	for i, entry := range entries {
		if err := egress.CheckEntry(entry); err != nil {
			c.problem(fmt.Sprintf("%s[%d]", key, i), err.Error(), "")
		}
	}
}
