// Package restrict turns the policy's rules about effects into what the kernel enforces on
// a program: files and folders that it cannot read or change, programs that it cannot
// start, and hosts that it cannot reach. However a program spells what it does, it meets
// the rule; reading its command line beforehand cannot promise that.
//
// [Enforceable] says which rules have a form that can be enforced. [Plan] returns the
// mounts that enforce those about files and programs.
package restrict

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Enforceable reports whether a rule can be enforced on a program that a call starts. A
// rule is an effect whose target is a pattern, as policy writes it. Predicted are the
// effects of the call, as far as they are known.
//
// Paths can be enforced if only the last segment has a wildcard. Deleting can be, if the
// rule names one path. A rule about one program hides that program. A rule about a command
// line, such as "git push*", hides its program too, unless the call visibly starts that
// program; then the rule can only be judged.
func Enforceable(rule toolroom.Effect, predicted []toolroom.Effect) bool {
	switch rule.Kind {
	case toolroom.EffectFile:
		f := formOf(rule.Target)
		return f.ok && (rule.Mode != "delete" || f.last == "")
	case toolroom.EffectCommand:
		program, _, line := strings.Cut(rule.Target, " ")
		if strings.Trim(program, "*") == "" || strings.Contains(program, "/") {
			return false
		}
		return !line || !strings.Contains(program, "*") && !starts(predicted, program)
	case toolroom.EffectHost:
		return rule.Mode == "" || rule.Mode == "connect"
	default:
		return false
	}
}

// starts reports whether one of the effects visibly starts a program.
func starts(predicted []toolroom.Effect, program string) bool {
	return slices.ContainsFunc(predicted, func(e toolroom.Effect) bool {
		if e.Kind != toolroom.EffectCommand {
			return false
		}
		name, _, _ := strings.Cut(e.Target, " ")
		return name[strings.LastIndexByte(name, '/')+1:] == program
	})
}

// form is a pattern of paths that can be enforced: dir alone, everything below it, or its
// entries that match last.
type form struct {
	dir, last string // last is "", "**" or a pattern of one segment
	ok        bool
}

func formOf(target string) form {
	if !strings.HasPrefix(target, "/") {
		return form{}
	}
	at := strings.LastIndexByte(target, '/')
	f := form{dir: target, ok: true}
	if strings.Contains(target[at:], "*") {
		f.dir, f.last = target[:at], target[at+1:]
	}
	f.ok = !strings.Contains(f.dir, "*") && strings.Trim(f.dir, "/") != "" && (f.last == "**" || !strings.Contains(f.last, "**"))
	return f
}

// Hosts returns the targets of the rules about hosts; "*" means every host.
func Hosts(rules []toolroom.Effect) []string {
	var hosts []string
	for _, r := range rules {
		if r.Kind != toolroom.EffectHost {
			continue
		}
		if r.Target == "" {
			r.Target = "*"
		}
		hosts = append(hosts, r.Target)
	}
	return hosts
}

// glob reports whether a pattern with * matches a whole text.
func glob(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, first)
	if !ok {
		return false
	}
	for i := range len(text) + 1 {
		if glob(rest, text[i:]) {
			return true
		}
	}
	return false
}
