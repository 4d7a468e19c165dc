// Package restrict makes the kernel enforce the policy's rules about effects on a program:
// files and folders that it cannot read or change, programs that it cannot start, and hosts
// that it cannot reach. These rules hold however the program tries, which cannot be
// guaranteed by reading its command line.
//
// [Enforceable] reports which rules can be enforced. [Plan] returns the mounts that enforce
// those about files and programs.
package restrict

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
)

// Enforceable reports whether a rule can be enforced on a program that a call starts. A
// rule is an effect whose target is a pattern, as policy writes it. predicted are the known
// effects of the call.
//
// A rule about a program hides that program. A rule about a command line, such as "git
// push*", also hides its program, unless the call is predicted to start that program: then the
// rule can only be judged by the predicted effects. Likewise, a rule about an HTTP method blocks
// the host unless the call is predicted to reach it.
func Enforceable(rule toolroom.Effect, predicted []toolroom.Effect) bool {
	switch rule.Kind {
	case toolroom.EffectFile:
		return parsePathPattern(rule.Target).ok
	case toolroom.EffectCommand:
		program, _, line := strings.Cut(rule.Target, " ")
		if !namesProgram(program) {
			return false
		}
		return !line || !strings.Contains(program, "*") && !startsProgram(predicted, program)
	case toolroom.EffectHost:
		return rule.Mode == "" || rule.Mode == "connect" || rule.Target != "" && !reachesHost(predicted, rule.Target)
	default:
		return false
	}
}

// namesProgram reports whether a pattern names programs in a form that can be searched: by name,
// by name in any folder (*/rm), or by absolute path.
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

// startsProgram reports whether one of the predicted effects starts program.
func startsProgram(predicted []toolroom.Effect, program string) bool {
	base := func(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
	return slices.ContainsFunc(predicted, func(e toolroom.Effect) bool {
		if e.Kind != toolroom.EffectCommand {
			return false
		}
		name, _, _ := strings.Cut(e.Target, " ")
		return base(name) == base(program)
	})
}

// reachesHost reports whether one of the predicted effects reaches a host that target matches.
func reachesHost(predicted []toolroom.Effect, target string) bool {
	hosts, err := egress.ParseHosts(target)
	return slices.ContainsFunc(predicted, func(e toolroom.Effect) bool {
		return e.Kind == toolroom.EffectHost && e.Target != "" && (err != nil || hosts(e.Target))
	})
}

// pathPattern is a parsed pattern of paths. ok means that it can be enforced.
type pathPattern struct {
	segments []string
	deep     bool // ** is before the last segment
	ok       bool
}

// parsePathPattern parses a pattern of paths. It cannot be enforced if it has no name in it, so
// that it matches the whole machine, or if it matches several processes in /proc.
func parsePathPattern(target string) pathPattern {
	path, absolute := strings.CutPrefix(target, "/")
	if !absolute && !strings.HasPrefix(path, "**/") {
		return pathPattern{}
	}
	f := pathPattern{segments: strings.Split(path, "/")}
	for i, segment := range f.segments {
		f.deep = f.deep || segment == "**" && i < len(f.segments)-1
		f.ok = f.ok || strings.Trim(segment, "*") != ""
	}
	if first := f.segments[0]; first == "proc" && strings.Contains(path, "*") {
		f.ok = false
	}
	return f
}

// Hosts returns the targets of the rules about hosts. "*" means every host.
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

// Glob reports whether pattern, in which * matches any text, matches the whole of text.
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
