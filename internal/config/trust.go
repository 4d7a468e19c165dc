package config

import "github.com/toolroom/toolroom"

// Trust configures how far sources are trusted.
type Trust struct {
	// Pin sets what happens to a tool whose definition differs from the pinned one: hold
	// quarantines it until a person has reviewed it, warn logs a warning, off does not
	// compare. Empty means hold for MCP servers, warn for OpenAPI documents, and off for
	// definitions from this file or from a program on this machine.
	Pin string `yaml:"pin,omitempty"`
	// QuarantineNew quarantines new tools until a person has accepted them.
	QuarantineNew bool `yaml:"quarantine_new,omitempty"`
	// Taint sets what happens to a call that can send data outside and is tainted by both
	// untrusted content and private data: off (the default), confirm or deny.
	Taint string `yaml:"taint,omitempty"`
	// Inside lists patterns of tools that send nothing outside, whatever their source
	// claims.
	Inside []string `yaml:"inside,omitempty"`
}

// Values of Trust.Pin.
const (
	PinOff  = "off"
	PinWarn = "warn"
	PinHold = "hold"
)

// Values of Trust.Taint.
const (
	TaintOff     = "off"
	TaintConfirm = "confirm"
	TaintDeny    = "deny"
)

// PinOf returns the pin setting of a source.
func (c *Config) PinOf(s Source) string {
	switch {
	case s.Pin != "":
		return s.Pin
	case c.Policy.Pin != "":
		return c.Policy.Pin
	case s.MCP != nil:
		return PinHold
	case s.OpenAPI != nil:
		return PinWarn
	default:
		return PinOff
	}
}

// Quarantined reports whether new tools of a source are quarantined until a person has
// accepted them.
func (c *Config) Quarantined(s Source) bool {
	if s.Quarantine != nil {
		return *s.Quarantine
	}
	return c.Policy.QuarantineNew
}

func (c check) trust(config *Config) {
	t := config.Policy.Trust
	if t.Pin != "" {
		c.oneOf("policy.pin", t.Pin, PinOff, PinWarn, PinHold)
	}
	if t.Taint != "" {
		c.oneOf("policy.taint", t.Taint, TaintOff, TaintConfirm, TaintDeny)
	}
	c.patterns("policy.inside", t.Inside, nil)
}

func (c check) sourceTrust(key string, s Source) {
	if s.Pin != "" {
		c.oneOf(key+".pin", s.Pin, PinOff, PinWarn, PinHold)
	}
	for _, label := range s.Labels {
		c.label(key+".labels", label)
	}
	for glob, labels := range s.ToolLabels {
		c.globs(key+".tool_labels", []string{glob})
		for _, label := range labels {
			c.label(key+".tool_labels", label)
		}
	}
}

func (c check) label(key, label string) {
	if (toolroom.ID{Namespace: label, Name: label}).Validate() != nil {
		c.problem(key, quote(label)+" is not a label: it needs 1 to 128 characters of A-Z a-z 0-9 _ . -", "for example untrusted")
	}
}
