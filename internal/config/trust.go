package config

import "github.com/toolroom/toolroom"

// Trust says how far sources are trusted.
type Trust struct {
	// Pin says what becomes of a tool whose definition is not the one that was
	// taken first: hold refuses it until a person has looked, warn logs it, off
	// does not look. Empty is hold for MCP servers, warn for OpenAPI documents,
	// off for what this file or a program on this machine defines.
	Pin string `yaml:"pin,omitempty"`
	// QuarantineNew holds tools that nobody has taken yet.
	QuarantineNew bool `yaml:"quarantine_new,omitempty"`
	// Taint says what becomes of a call that can send outside while content that
	// nobody vouches for and private data are both in reach: off (the default),
	// confirm or deny.
	Taint string `yaml:"taint,omitempty"`
	// Inside are patterns of tools that send nothing outside, whatever their
	// source says.
	Inside []string `yaml:"inside,omitempty"`
}

// The words of Trust.Pin.
const (
	PinOff  = "off"
	PinWarn = "warn"
	PinHold = "hold"
)

// The words of Trust.Taint.
const (
	TaintOff     = "off"
	TaintConfirm = "confirm"
	TaintDeny    = "deny"
)

// PinOf is what the config says of a source's definitions.
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

// Quarantined reports whether tools of a source wait until a person has taken
// them.
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
