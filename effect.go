package toolroom

import (
	"fmt"
	"slices"
	"strings"
)

// Effect is one thing that a call would do to the world, as far as can be told
// before it runs. An empty Mode or Target is not known, and a rule about its
// kind takes it for any. ([Effects] says of a call that has ended whether its
// effects happened.)
//
// In Tool.Effects, {name} in a target stands for the argument of that name,
// {a.b} for one within another; a list gives one effect for each element.
type Effect struct {
	Kind EffectKind `json:"kind"`
	Mode string     `json:"mode,omitempty"`
	// Target is an absolute path, host:port, a command line, a table, an
	// amount, in the one form that rules are matched against. In a command
	// line the word … is one that cannot be known.
	Target string `json:"target,omitempty"`
}

// EffectKind says what an effect is on.
type EffectKind string

// The kinds, and their modes.
const (
	EffectFile    EffectKind = "file"    // read, write, delete
	EffectHost    EffectKind = "host"    // an HTTP method in lower case, or connect
	EffectCommand EffectKind = "command" // has no modes
	EffectSQL     EffectKind = "sql"     // a verb in lower case
	EffectSpend   EffectKind = "spend"   // an amount of something: 12.5 EUR
	EffectSend    EffectKind = "send"    // data may leave this system
	EffectDestroy EffectKind = "destroy" // something may be lost
	EffectNone    EffectKind = "none"    // declares that there is no effect
)

// effectModes lists the modes of a kind; an open kind has any word.
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

// ParseEffect reads KIND, KIND.MODE, KIND:TARGET or KIND.MODE:TARGET, such as
// file.write:/etc/hosts or host.post:api.example.com:443.
func ParseEffect(text string) (Effect, error) {
	head, target, hasTarget := strings.Cut(text, ":")
	kind, mode, hasMode := strings.Cut(head, ".")
	e := Effect{EffectKind(kind), mode, target}
	modes, open, known := effectModes(e.Kind)
	switch {
	case !known:
		return e, fmt.Errorf("%q: there is no kind of effect %q; there are file, host, command, sql, spend, send, destroy", text, kind)
	case hasTarget && target == "":
		return e, fmt.Errorf("%q names no target behind the colon", text)
	case !hasMode:
		return e, nil
	case strings.Trim(mode, "abcdefghijklmnopqrstuvwxyz_") != "" || mode == "":
		return e, fmt.Errorf("%q: the mode %q is not a word in lower case", text, mode)
	case !open && !slices.Contains(modes, mode):
		if len(modes) == 0 {
			return e, fmt.Errorf("%q: an effect of kind %s has no modes", text, kind)
		}
		return e, fmt.Errorf("%q: the modes of %s are %s, not %s", text, kind, strings.Join(modes, ", "), mode)
	}
	return e, nil
}

// Reads reports whether a file may be read: a mode that is not known counts.
func (e Effect) Reads() bool { return e.Kind == EffectFile && (e.Mode == "" || e.Mode == "read") }

// Writes reports whether a file may be changed or deleted: a mode that is not
// known counts.
func (e Effect) Writes() bool { return e.Kind == EffectFile && e.Mode != "read" }

// String says in plain words what the effect is, as the end of "it …".
func (e Effect) String() string {
	switch e.Kind {
	case EffectFile:
		verb := map[string]string{"read": "reads", "write": "writes", "delete": "deletes"}[e.Mode]
		if verb == "" {
			verb = "reads or changes"
		}
		return verb + " " + orUnknown(e.Target, "a file that is not known beforehand")
	case EffectHost:
		target := orUnknown(e.Target, "a host that is not known beforehand")
		if e.Mode == "" || e.Mode == "connect" {
			return "connects to " + target
		}
		return "sends " + strings.ToUpper(e.Mode) + " to " + target
	case EffectCommand:
		return "runs " + orUnknown(e.Target, "a command that is not known beforehand")
	case EffectSQL:
		return "does SQL " + orUnknown(strings.ToUpper(e.Mode), "that cannot be read") + " on " + orUnknown(e.Target, "a table that is not known")
	case EffectSpend:
		return "spends " + orUnknown(e.Target, "an amount that is not known")
	case EffectSend:
		return "can send data " + toTarget(e.Target)
	case EffectDestroy:
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
