package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/egress"
)

// effectPrefix begins a pattern that selects calls by their effects.
const effectPrefix = "effect:"

// EffectPattern selects effects of a call:
//
//	effect:file.write:/etc/**      writing below /etc, or to an unknown file
//	effect:host:*.example.com      any request to these hosts; effect:host.delete, a method
//	effect:command:rm              a program, anywhere in a command line
//	effect:command:git push*       a command line
//	effect:sql.drop:users          a verb and a table
//	effect:send, effect:destroy, effect:spend
//
// An effect without a target is unknown, and every pattern of its kind selects it. Such
// patterns deny and confirm; they never allow, and they do not hide tools from lists.
type EffectPattern struct {
	text   string
	effect toolroom.Effect
	host   func(hostPort string) bool
}

// ParseEffectPattern parses a pattern that begins with effect:.
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

// sqlVerbs are the verbs that people write by mistake in place of a table.
var sqlVerbs = []string{"select", "insert", "update", "delete", "drop", "truncate", "alter", "create", "grant", "revoke", "merge", "replace"}

// Matches reports whether the pattern selects an effect or, if the effect is partly unknown,
// may select it.
func (p *EffectPattern) Matches(e toolroom.Effect) bool { return p.matches(e, new([]string)) }

// matches is Matches with a cache: if it needs resolvedPatterns, it stores their result in real.
func (p *EffectPattern) matches(e toolroom.Effect, real *[]string) bool {
	want := p.effect
	switch {
	case e.Kind != want.Kind:
		return false
	case want.Mode != "" && e.Mode != "" && !matchesMode(e, want.Mode):
		return false
	case want.Target == "" || want.Target == "*" || e.Target == "":
		return true
	}
	switch e.Kind {
	case toolroom.EffectFile:
		if matchPath(want.Target, e) {
			return true
		}
		if *real == nil {
			*real = resolvedPatterns(want.Target)
		}
		return slices.ContainsFunc(*real, func(pattern string) bool { return matchPath(pattern, e) })
	case toolroom.EffectHost:
		return p.host(e.Target)
	case toolroom.EffectCommand:
		return matchCommand(want.Target, e.Target)
	case toolroom.EffectSQL:
		table := strings.ToLower(want.Target)
		return matchGlob(table, e.Target) || !strings.Contains(table, ".") && matchGlob(table, e.Target[strings.LastIndexByte(e.Target, '.')+1:])
	default:
		// Recipients and objects have no canonical form: ANN@example.com may be ann@example.com.
		return matchGlob(foldName(want.Target), foldName(e.Target))
	}
}

// matchesBelow reports whether the effect is on a folder that may contain files, now or later,
// that the pattern selects: a call that names the folder may use them.
func (p *EffectPattern) matchesBelow(e toolroom.Effect, real *[]string) bool {
	want := p.effect
	if want.Kind != toolroom.EffectFile || e.Kind != want.Kind || want.Mode != "" && e.Mode != "" && e.Mode != want.Mode || want.Target == "" || e.Target == "" {
		return false
	}
	reaches := func(pattern string) bool {
		return mayMatchBelow(strings.Split(pattern, "/"), strings.Split(strings.TrimSuffix(e.Target, "/"), "/"))
	}
	if !reaches(want.Target) {
		if *real == nil {
			*real = resolvedPatterns(want.Target)
		}
		if !slices.ContainsFunc(*real, reaches) {
			return false
		}
	}
	info, err := os.Stat(e.Target)
	return err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) // it may be one
}

// FileMatcher returns a function that reports whether one of the rules matches using a file in
// a mode. A rule is an effect whose target is a pattern. The file is an absolute path without
// links.
func FileMatcher(rules []toolroom.Effect, mode string) func(file string) bool {
	type known struct {
		pattern EffectPattern
		real    []string
	}
	var patterns []*known
	for _, r := range rules {
		if r.Kind == toolroom.EffectFile {
			patterns = append(patterns, &known{EffectPattern{effect: r}, resolvedPatterns(r.Target)})
		}
	}
	return func(file string) bool {
		e := toolroom.Effect{Kind: toolroom.EffectFile, Mode: mode, Target: file}
		return slices.ContainsFunc(patterns, func(k *known) bool { return k.pattern.matches(e, &k.real) })
	}
}

// matchesMode reports whether e has the mode. A connection whose method is unknown may have any.
func matchesMode(e toolroom.Effect, mode string) bool {
	return e.Mode == mode || e.Kind == toolroom.EffectHost && e.Mode == "connect"
}

// Limits of what is examined for one pattern. A pattern that exceeds them matches every path
// with the same beginning.
const (
	maxListed   = 50_000 // entries of folders
	maxPatterns = 1000
)

// resolvedPatterns returns the pattern with the current links in it resolved, because a call may
// name a file without the link. It does not follow links in the folders that ** matches.
func resolvedPatterns(pattern string) []string {
	l := &linkFollower{left: maxListed, found: []string{}}
	if strings.HasPrefix(pattern, "/") {
		l.follow("/", strings.Split(pattern[1:], "/"), false)
	}
	if l.left < 0 || len(l.found) > maxPatterns {
		literal, _, _ := strings.Cut(pattern, "*")
		real, ok := effects.Resolve(literal[:strings.LastIndexByte(literal, '/')+1])
		if !ok {
			real = ""
		}
		return []string{strings.TrimSuffix(real, "/") + "/**"}
	}
	return l.found
}

// linkFollower collects the patterns to which the links in a pattern lead.
type linkFollower struct {
	left  int
	found []string
}

// follow follows the rest of a pattern from dir. linked means that dir was reached by a link.
func (l *linkFollower) follow(dir string, rest []string, linked bool) {
	if linked {
		l.found = append(l.found, strings.TrimSuffix(dir+"/"+strings.Join(rest, "/"), "/"))
	}
	if len(rest) == 0 || rest[0] == "**" || l.left < 0 || len(l.found) > maxPatterns {
		return
	}
	into := func(name string) {
		next := path.Join(dir, name)
		if real, ok := effects.Resolve(next); ok {
			l.follow(real, rest[1:], real != next)
		}
	}
	if !strings.Contains(rest[0], "*") {
		into(rest[0])
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // not a folder, or unreadable
	}
	l.left -= len(entries)
	for _, e := range entries {
		if (e.Type()&fs.ModeSymlink != 0 || e.IsDir() && len(rest) > 1) && matchGlob(rest[0], e.Name()) {
			into(e.Name())
		}
	}
}

// matchPath matches a path. ** matches any number of folders, including none, and * matches
// within one. Deleting a folder also matches patterns for the files in it.
func matchPath(pattern string, e toolroom.Effect) bool {
	if e.Mode == "delete" || e.Mode == "" {
		literal, _, _ := strings.Cut(pattern, "*")
		if strings.HasPrefix(literal, strings.TrimSuffix(e.Target, "/")+"/") {
			return true
		}
	}
	return matchSegments(strings.Split(pattern, "/"), strings.Split(e.Target, "/"))
}

// mayMatchBelow reports whether a pattern may match a path below folder.
func mayMatchBelow(glob, folder []string) bool {
	for i, name := range folder {
		if i == len(glob) {
			return false
		}
		if glob[i] == "**" {
			return true
		}
		if !matchGlob(glob[i], name) {
			return false
		}
	}
	return len(glob) > len(folder)
}

// unknownWord stands for an unknown word in a command line.
const unknownWord = "…"

// ProgramNames returns the names of the program that a command line starts: as it is written,
// and without its folder. The name of an unknown program is "".
func ProgramNames(line string) []string {
	program, _, _ := strings.Cut(line, " ")
	if strings.Contains(program, unknownWord) {
		return []string{""}
	}
	if base := path.Base(program); base != program && program != "" {
		return []string{program, base}
	}
	return []string{program}
}

// matchCommand matches a pattern of one word against the program, by name or path, and a pattern
// of several words against the whole line. An unknown word matches any part of the pattern.
func matchCommand(pattern, line string) bool {
	_, args, _ := strings.Cut(line, " ")
	names := ProgramNames(line)
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

// errEffectPattern is the error for an effect pattern where a pattern of tools is required.
var errEffectPattern = errors.New("a rule about effects belongs in deny or confirm: it judges calls and selects no tools")

// parseRestrictions parses the patterns of deny or confirm, which may also be effect patterns.
func (p *parser) parseRestrictions(path string, texts []string) rules {
	var out rules
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !strings.HasPrefix(text, effectPrefix) {
			out = p.appendRule(out, at, text)
			continue
		}
		pattern, err := ParseEffectPattern(text)
		if err != nil {
			p.addProblem(at, "%w", err)
			continue
		}
		out = append(out, rule{effect: pattern, text: fmt.Sprintf("%s: %q", at, text)})
	}
	return out
}

// matches reports whether the rule matches the tool or, for a rule about effects, the call. Then
// because is the first effect that it matches. A rule that is enforced on the call's programs
// does not match unknown effects, or a folder because of the files below it.
func (r *rule) matches(t *toolroom.Tool, call *Context) (because toolroom.Effect, ok bool) {
	if r.effect == nil {
		return because, r.pattern.MatchesAnySpelling(t)
	}
	if call == nil {
		return because, false
	}
	var real []string
	for i, e := range call.Effects {
		known := r.effect.matches(e, &real)
		if known && e.Target != "" || (known || r.effect.matchesBelow(e, &real)) && !call.enforces(r.effect.effect) {
			return call.Effects[i], true
		}
	}
	return because, false
}
