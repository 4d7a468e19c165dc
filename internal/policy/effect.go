package policy

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
)

// effectPrefix begins a pattern that selects calls by what they would do.
const effectPrefix = "effect:"

// EffectPattern selects effects of a call:
//
//	effect:file.write:/etc/**      writing below /etc (or what cannot be told)
//	effect:host:*.example.com      any request there; effect:host.delete, a method
//	effect:command:rm              a program, wherever in a command line
//	effect:command:git push*       a command line
//	effect:sql.drop:users          a verb and a table
//	effect:send, effect:destroy, effect:spend
//
// An effect that is not known is selected by every pattern of its kind. Such
// patterns deny and confirm; they never allow, and hide nothing from lists.
type EffectPattern struct {
	text   string
	effect toolroom.Effect
	host   func(hostPort string) bool
}

// ParseEffectPattern reads a pattern that begins with effect:.
func ParseEffectPattern(text string) (*EffectPattern, error) {
	body, ok := strings.CutPrefix(text, effectPrefix)
	if !ok {
		return nil, fmt.Errorf("%q does not begin with %s", text, effectPrefix)
	}
	e, err := toolroom.ParseEffect(body)
	if err != nil {
		return nil, err
	}
	p := &EffectPattern{text: text, effect: e}
	switch e.Kind {
	case toolroom.EffectNone:
		return nil, fmt.Errorf("%q: a call without effects is no reason to deny or ask", text)
	case toolroom.EffectFile:
		if e.Target != "" && !strings.HasPrefix(e.Target, "/") && !strings.HasPrefix(e.Target, "**/") {
			return nil, fmt.Errorf("%q: write an absolute path, or **/name for one anywhere", text)
		}
	case toolroom.EffectHost:
		if e.Target == "" || e.Target == "*" {
			break
		}
		if p.host, err = egress.ParseHosts(e.Target); err != nil {
			return nil, err
		}
	case toolroom.EffectSQL:
		if e.Mode == "" && slices.Contains(sqlVerbs, strings.ToLower(e.Target)) {
			return nil, fmt.Errorf("%q names a table; for the verb write effect:sql.%s", text, strings.ToLower(e.Target))
		}
	case toolroom.EffectCommand:
		if e.Target != strings.Join(strings.Fields(e.Target), " ") {
			return nil, fmt.Errorf("%q: write one space between words", text)
		}
	}
	return p, nil
}

// sqlVerbs are words that people write where a table belongs.
var sqlVerbs = []string{"select", "insert", "update", "delete", "drop", "truncate", "alter", "create", "grant", "revoke", "merge", "replace"}

// Matches reports whether the pattern selects an effect, or may.
func (p *EffectPattern) Matches(e toolroom.Effect) bool {
	want := p.effect
	switch {
	case e.Kind != want.Kind:
		return false
	case want.Mode != "" && e.Mode != "" && !sameMode(e, want.Mode):
		return false
	case want.Target == "" || want.Target == "*" || e.Target == "":
		return true
	}
	switch e.Kind {
	case toolroom.EffectFile:
		return matchPath(want.Target, e)
	case toolroom.EffectHost:
		return p.host(e.Target)
	case toolroom.EffectCommand:
		return matchCommand(want.Target, e.Target)
	case toolroom.EffectSQL:
		table := strings.ToLower(want.Target)
		return matchGlob(table, e.Target) || !strings.Contains(table, ".") && matchGlob(table, e.Target[strings.LastIndexByte(e.Target, '.')+1:])
	default:
		return matchGlob(want.Target, e.Target)
	}
}

// sameMode takes a connection of which no method is known for any.
func sameMode(e toolroom.Effect, mode string) bool {
	return e.Mode == mode || e.Kind == toolroom.EffectHost && e.Mode == "connect"
}

// matchPath matches ** over folders and * within one. A pattern with /** at its
// end selects the folder too, and whoever deletes a folder deletes what is in it.
func matchPath(pattern string, e toolroom.Effect) bool {
	if folder, ok := strings.CutSuffix(pattern, "/**"); ok && matchSegments(strings.Split(folder, "/"), strings.Split(e.Target, "/")) {
		return true
	}
	if e.Mode == "delete" || e.Mode == "" {
		literal, _, _ := strings.Cut(pattern, "*")
		if strings.HasPrefix(literal, strings.TrimSuffix(e.Target, "/")+"/") {
			return true
		}
	}
	return matchSegments(strings.Split(pattern, "/"), strings.Split(e.Target, "/"))
}

// matchSegments keeps, as a set, the places in the pattern that the segments
// read so far can have led to; the work is bounded by the product of the two.
func matchSegments(pattern, segments []string) bool {
	at := map[int]bool{0: true}
	skipStars(at, pattern)
	for _, segment := range segments {
		next := map[int]bool{}
		for i := range at {
			switch {
			case i >= len(pattern):
			case pattern[i] == "**":
				next[i] = true
			case matchGlob(pattern[i], segment):
				next[i+1] = true
			}
		}
		skipStars(next, pattern)
		at = next
	}
	return at[len(pattern)]
}

// skipStars adds the places behind ** that may stand for nothing.
func skipStars(at map[int]bool, pattern []string) {
	for i := range pattern {
		if at[i] && pattern[i] == "**" {
			at[i+1] = true
		}
	}
}

// unknownWord stands in a command line for a word that is not known.
const unknownWord = "…"

// matchCommand matches a pattern of one word against the program, by name or by
// path, and one of several against the whole line. A word that is not known may
// be what the pattern says.
func matchCommand(pattern, line string) bool {
	program, args, _ := strings.Cut(line, " ")
	names := []string{program, path.Base(program)}
	if !strings.Contains(pattern, " ") {
		return slices.ContainsFunc(names, func(name string) bool { return matchGlob(pattern, name) })
	}
	return slices.ContainsFunc(names, func(name string) bool {
		whole := name + " " + args
		known, _, unknown := strings.Cut(whole, unknownWord)
		if unknown {
			literal, _, _ := strings.Cut(pattern, "*")
			if strings.HasPrefix(known, literal) || strings.HasPrefix(literal, known) {
				return true
			}
		}
		return matchGlob(pattern, whole)
	})
}

// errOnlyRestricts is why an effect pattern is no pattern of tools.
var errOnlyRestricts = errors.New("a rule about effects belongs in deny or confirm: it judges calls and selects no tools")

// restrictions reads deny and confirm, in which effects may be named too.
func (p *parser) restrictions(path string, texts []string) rules {
	var out rules
	for i, text := range texts {
		if !strings.HasPrefix(text, effectPrefix) {
			out = p.rule(out, path, i, text)
			continue
		}
		pattern, err := ParseEffectPattern(text)
		if err != nil {
			p.problems = append(p.problems, fmt.Errorf("%s[%d]: %w", path, i, err))
			continue
		}
		out = append(out, rule{effect: pattern, text: fmt.Sprintf("%s[%d]: %q", path, i, text)})
	}
	return out
}

// selects reports whether the rule is about the tool, or about a call of it with
// these effects; then because is the first that it is about.
func (r *rule) selects(t *toolroom.Tool, effects []toolroom.Effect) (because toolroom.Effect, ok bool) {
	if r.effect == nil {
		return because, r.pattern.Matches(t)
	}
	i := slices.IndexFunc(effects, r.effect.Matches)
	if i < 0 {
		return because, false
	}
	return effects[i], true
}

// CallDecider decides about one call, with what it would do. A [Decider] that is
// none decides about calls as it does about tools.
type CallDecider interface {
	DecideCall(tool *toolroom.Tool, who toolroom.Identity, effects []toolroom.Effect) Decision
}

// DecideCall asks d about a call: never more lenient than about its tool.
func DecideCall(d Decider, tool *toolroom.Tool, who toolroom.Identity, effects []toolroom.Effect) Decision {
	if c, ok := d.(CallDecider); ok {
		return c.DecideCall(tool, who, effects)
	}
	return d.Decide(tool, who)
}
