package toolroom

import (
	"fmt"
	"slices"
	"strings"
)

// Effect is one predicted effect of a call: a change or access that is known before the
// call runs. An empty Mode or Target is unknown, and a rule about the kind matches any.
// (For a call that has ended, [Effects] reports whether its effects happened.)
//
// In Tool.Effects, {name} in a target is replaced by the argument of that name, and {a.b} by a
// nested one. An array makes one effect for each element.
type Effect struct {
	Kind EffectKind `json:"kind"`
	Mode string     `json:"mode,omitempty"`
	// Target is an absolute path, host:port, a command line, a table or an amount, in the
	// canonical form that rules are matched against. In a command line, … means an unknown
	// word.
	Target string `json:"target,omitempty"`
}

// EffectKind is the kind of thing that an effect acts on.
type EffectKind string

// The kinds of effect and their modes.
const (
	EffectFile    EffectKind = "file"    // read, write, delete
	EffectHost    EffectKind = "host"    // an HTTP method in lower case, or connect
	EffectCommand EffectKind = "command" // has no modes
	EffectSQL     EffectKind = "sql"     // a verb in lower case
	EffectSpend   EffectKind = "spend"   // an amount and a unit: 12.5 EUR
	EffectSend    EffectKind = "send"    // data may leave this system
	EffectDestroy EffectKind = "destroy" // something may be lost
	EffectNone    EffectKind = "none"    // declares that the tool has no effect
)

// effectModes returns the modes of a kind. An open kind accepts any word.
func effectModes(k EffectKind) (modes []string, open, known bool) {
	switch k {
	case EffectFile:
		return []string{"read", "write", "delete"}, false, true
	case EffectHost, EffectSQL:
		return nil, true, true
	case EffectCommand, EffectSpend, EffectSend, EffectDestroy, EffectNone:
		return nil, false, true
	default:
		return nil, false, false
	}
}

// ParseEffect parses KIND, KIND.MODE, KIND:TARGET or KIND.MODE:TARGET, such as
// file.write:/etc/hosts or host.post:api.example.com:443.
func ParseEffect(text string) (Effect, error) {
	head, target, hasTarget := strings.Cut(text, ":")
	kind, mode, hasMode := strings.Cut(head, ".")
	e := Effect{EffectKind(kind), mode, target}
	modes, open, known := effectModes(e.Kind)
	switch {
	case !known:
		return e, fmt.Errorf("%q: unknown effect kind %q (known: file, host, command, sql, spend, send, destroy)", text, kind)
	case hasTarget && target == "":
		return e, fmt.Errorf("%q has no target after the colon", text)
	case !hasMode:
		return e, nil
	case strings.Trim(mode, "abcdefghijklmnopqrstuvwxyz_") != "" || mode == "":
		return e, fmt.Errorf("%q: the mode %q is not a lower-case word", text, mode)
	case !open && !slices.Contains(modes, mode):
		if len(modes) == 0 {
			return e, fmt.Errorf("%q: an effect of kind %s has no modes", text, kind)
		}
		return e, fmt.Errorf("%q: the modes of %s are %s, not %s", text, kind, strings.Join(modes, ", "), mode)
	}
	return e, nil
}

// Reads reports whether a file may be read. An unknown mode may read.
func (e Effect) Reads() bool { return e.Kind == EffectFile && (e.Mode == "" || e.Mode == "read") }

// Writes reports whether a file may be changed or deleted. An unknown mode may.
func (e Effect) Writes() bool { return e.Kind == EffectFile && e.Mode != "read" }

// String describes the effect in plain words that can follow "it".
func (e Effect) String() string {
	switch e.Kind {
	case EffectFile:
		verb := map[string]string{"read": "reads", "write": "writes", "delete": "deletes"}[e.Mode]
		if verb == "" {
			verb = "reads or changes"
		}
		return verb + " " + orUnknown(e.Target, "a file that is not known in advance")
	case EffectHost:
		target := orUnknown(e.Target, "a host that is not known in advance")
		if e.Mode == "" || e.Mode == "connect" {
			return "connects to " + target
		}
		return "sends " + strings.ToUpper(e.Mode) + " to " + target
	case EffectCommand:
		return "runs " + orUnknown(e.Target, "a command that is not known in advance")
	case EffectSQL:
		return "does SQL " + orUnknown(strings.ToUpper(e.Mode), "of an unknown kind") + " on " + orUnknown(e.Target, "an unknown table")
	case EffectSpend:
		return "spends " + orUnknown(e.Target, "an unknown amount")
	case EffectSend:
		return "can send data " + toTarget(e.Target)
	case EffectDestroy:
		if at := strings.LastIndexByte(e.Target, ':'); at > 0 && at < len(e.Target)-1 && strings.Trim(e.Target[at+1:], "0123456789") == "" {
			return "can destroy something at " + e.Target // a host and its port
		}
		return "can destroy " + orUnknown(e.Target, "something")
	default:
		return string(e.Kind)
	}
}

func toTarget(target string) string {
	if target == "" {
		return "outside"
	}
	return "to " + target
}

func orUnknown(text, unknown string) string {
	if text == "" {
		return unknown
	}
	return text
}
