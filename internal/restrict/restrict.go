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
	"github.com/toolroom/toolroom/internal/egress"
)

// Enforceable reports whether a rule can be enforced on a program that a call starts. A
// rule is an effect whose target is a pattern, as policy writes it. Predicted are the
// effects of the call, as far as they are known.
//
// A rule about one program hides that program. A rule about a command line, such as "git
// push*", hides its program too, unless the call visibly starts that program; then the rule
// can only be judged. So it is with a rule about a method of HTTP: it closes the host, unless
// the call visibly reaches it.
func Enforceable(rule toolroom.Effect, predicted []toolroom.Effect) bool {
	switch rule.Kind {
	case toolroom.EffectFile:
		return formOf(rule.Target).ok
	case toolroom.EffectCommand:
		program, _, line := strings.Cut(rule.Target, " ")
		if !namesProgram(program) {
			return false
		}
		return !line || !strings.Contains(program, "*") && !starts(predicted, program)
	case toolroom.EffectHost:
		return rule.Mode == "" || rule.Mode == "connect" || rule.Target != "" && !reaches(predicted, rule.Target)
	default:
		return false
	}
}

// namesProgram reports whether a pattern names programs that can be found: by name, by name
// in any folder (*/rm), or by absolute path.
func namesProgram(pattern string) bool {
	if name, ok := strings.CutPrefix(pattern, "*/"); ok {
		pattern = name
	}
	if strings.HasPrefix(pattern, "/") {
		first, _, _ := strings.Cut(pattern[1:], "/")
		return strings.Trim(first, "*") != "" && !strings.Contains(first, "*")
	}
	return strings.Trim(pattern, "*") != "" && !strings.Contains(pattern, "/")
}

// starts reports whether one of the effects visibly starts a program.
func starts(predicted []toolroom.Effect, program string) bool {
	base := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	return slices.ContainsFunc(predicted, func(e toolroom.Effect) bool {
		if e.Kind != toolroom.EffectCommand {
			return false
		}
		name, _, _ := strings.Cut(e.Target, " ")
		return base(name) == base(program)
	})
}

// reaches reports whether one of the effects visibly reaches a host of a rule.
func reaches(predicted []toolroom.Effect, target string) bool {
	hosts, err := egress.ParseHosts(target)
	return slices.ContainsFunc(predicted, func(e toolroom.Effect) bool {
		return e.Kind == toolroom.EffectHost && e.Target != "" && (err != nil || hosts(e.Target))
	})
}

// form is a pattern of paths that can be enforced.
type form struct {
	segments []string
	deep     bool // ** stands before the last segment
	ok       bool
}

// formOf reads a pattern of paths. It cannot be enforced if it names nothing, so that it is
// about the whole machine, or if it is about several processes.
func formOf(target string) form {
	path, anywhere := strings.CutPrefix(target, "/")
	if !anywhere && !strings.HasPrefix(path, "**/") {
		return form{}
	}
	f := form{segments: strings.Split(path, "/")}
	for i, segment := range f.segments {
		f.deep = f.deep || segment == "**" && i < len(f.segments)-1
		f.ok = f.ok || strings.Trim(segment, "*") != ""
	}
	if first := f.segments[0]; first == "proc" && strings.Contains(path, "*") {
		f.ok = false
	}
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

// Glob reports whether a pattern with * matches a whole text.
func Glob(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	text, ok := strings.CutPrefix(text, first)
	if !wild || !ok {
		return ok && text == ""
	}
	for {
		part, more, wild := strings.Cut(rest, "*")
		if !wild {
			return strings.HasSuffix(text, part)
		}
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text, rest = text[at+len(part):], more
	}
}
