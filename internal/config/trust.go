package config

import "github.com/toolroom/toolroom"

// Trust configures how far sources are trusted.
type Trust struct {
	// Definitions sets which definitions that a source changes are released by themselves:
	// auto releases all, additive those that only add optional parameters and members of
	// the value, manual none, so that the tool is quarantined until a person releases the new
	// version. Empty means manual for MCP servers, and auto for the others.
	Definitions string `yaml:"definitions,omitempty"`
	// QuarantineNew quarantines new tools until a person has released them.
	QuarantineNew bool `yaml:"quarantine_new,omitempty"`
	// Taint sets what happens to a call that can send data outside and is tainted by both
	// untrusted content and private data: off (the default), confirm or deny.
	Taint string `yaml:"taint,omitempty"`
	// Inside lists patterns of tools that send nothing outside, whatever their source
	// claims.
	Inside []string `yaml:"inside,omitempty"`
}

// Values of Trust.Definitions.
const (
	DefinitionsAuto     = "auto"
	DefinitionsAdditive = "additive"
	DefinitionsManual   = "manual"
)

// Values of Trust.Taint.
const (
	TaintOff     = "off"
	TaintConfirm = "confirm"
	TaintDeny    = "deny"
)

// DefinitionsOf returns which changed definitions of a source are released by themselves.
func (c *Config) DefinitionsOf(s Source) string {
	switch {
	case s.Definitions != "":
		return s.Definitions
	case c.Policy.Definitions != "":
		return c.Policy.Definitions
	case s.MCP != nil:
		return DefinitionsManual
	default:
		return DefinitionsAuto
	}
}

// Quarantined reports whether new tools of a source are quarantined until a person has
// released them.
func (c *Config) Quarantined(s Source) bool {
	if s.Quarantine != nil {
		return *s.Quarantine
	}
	return c.Policy.QuarantineNew
}

func (c checker) checkTrust(config *Config) {
	t := config.Policy.Trust
	c.requireOneOfOrEmpty("policy.definitions", t.Definitions, DefinitionsAuto, DefinitionsAdditive, DefinitionsManual)
	c.requireOneOfOrEmpty("policy.taint", t.Taint, TaintOff, TaintConfirm, TaintDeny)
	c.checkPatterns("policy.inside", t.Inside, config.Tools.AllGroups())
}

func (c checker) checkSourceTrust(key string, s Source) {
	c.requireOneOfOrEmpty(key+".definitions", s.Definitions, DefinitionsAuto, DefinitionsAdditive, DefinitionsManual)
	for _, label := range s.Labels {
		c.checkLabel(key+".labels", label)
	}
	for glob, labels := range s.ToolLabels {
		c.checkGlobs(key+".tool_labels", []string{glob})
		for _, label := range labels {
			c.checkLabel(key+".tool_labels", label)
		}
	}
}

func (c checker) checkLabel(key, label string) {
	if (toolroom.ID{Namespace: label, Name: label}).Validate() != nil {
		c.addProblem(key, quote(label)+" is not a label: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -", "for example untrusted")
	}
}
