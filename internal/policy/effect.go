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
func (p *EffectPattern) Matches(e toolroom.Effect) bool { return p.matches(e, new([]string)) }

// matches is Matches, which keeps in real what realPatterns returned, if it was needed.
func (p *EffectPattern) matches(e toolroom.Effect, real *[]string) bool {
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
		if matchPath(want.Target, e) {
			return true
		}
		if *real == nil {
			*real = realPatterns(want.Target)
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
		return matchGlob(want.Target, e.Target)
	}
}

// below reports whether an effect is about a folder with files, now or later, that the pattern
// selects: a call that names the folder may use them.
func (p *EffectPattern) below(e toolroom.Effect, real *[]string) bool {
	want := p.effect
	if want.Kind != toolroom.EffectFile || e.Kind != want.Kind || want.Mode != "" && e.Mode != "" && e.Mode != want.Mode || want.Target == "" || e.Target == "" {
		return false
	}
	reaches := func(pattern string) bool {
		return reachesBelow(strings.Split(pattern, "/"), strings.Split(strings.TrimSuffix(e.Target, "/"), "/"))
	}
	if !reaches(want.Target) {
		if *real == nil {
			*real = realPatterns(want.Target)
		}
		if !slices.ContainsFunc(*real, reaches) {
			return false
		}
	}
	info, err := os.Stat(e.Target)
	return err == nil && info.IsDir() || err != nil && !errors.Is(err, fs.ErrNotExist) // it may be one
}

// AboutFile returns a function that reports whether one of the rules is about using a file
// in a mode. A rule is an effect whose target is a pattern, as policy writes it, and the
// file an absolute path without links.
func AboutFile(rules []toolroom.Effect, mode string) func(file string) bool {
	type known struct {
		pattern EffectPattern
		real    []string
	}
	var patterns []*known
	for _, r := range rules {
		if r.Kind == toolroom.EffectFile {
			patterns = append(patterns, &known{EffectPattern{effect: r}, realPatterns(r.Target)})
		}
	}
	return func(file string) bool {
		e := toolroom.Effect{Kind: toolroom.EffectFile, Mode: mode, Target: file}
		return slices.ContainsFunc(patterns, func(k *known) bool { return k.pattern.matches(e, &k.real) })
	}
}

// sameMode takes a connection of which no method is known for any.
func sameMode(e toolroom.Effect, mode string) bool {
	return e.Mode == mode || e.Kind == toolroom.EffectHost && e.Mode == "connect"
}

// Limits of what is looked at for one pattern. A pattern that is beyond them may be about any
// path that begins like it.
const (
	maxListed   = 50_000 // entries of folders
	maxPatterns = 1000
)

// realPatterns returns the patterns of the paths to which a pattern leads through links, as
// they are now: a call may name the file without the link. Links in folders that ** stands
// for are not followed.
func realPatterns(pattern string) []string {
	l := &links{left: maxListed, found: []string{}}
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

// links follows the links that a pattern leads through.
type links struct {
	left  int
	found []string
}

// follow follows a pattern from a folder. linked means that a link has led there.
func (l *links) follow(dir string, rest []string, linked bool) {
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
		return // it is no folder, or its links cannot be known
	}
	l.left -= len(entries)
	for _, e := range entries {
		if (e.Type()&fs.ModeSymlink != 0 || e.IsDir() && len(rest) > 1) && matchGlob(rest[0], e.Name()) {
			into(e.Name())
		}
	}
}

// matchPath matches ** over folders, which may be none, and * within one.
// Whoever deletes a folder deletes what is in it.
func matchPath(pattern string, e toolroom.Effect) bool {
	if e.Mode == "delete" || e.Mode == "" {
		literal, _, _ := strings.Cut(pattern, "*")
		if strings.HasPrefix(literal, strings.TrimSuffix(e.Target, "/")+"/") {
			return true
		}
	}
	return matchSegments(strings.Split(pattern, "/"), strings.Split(e.Target, "/"))
}

// reachesBelow reports whether a pattern may match a path below a folder.
func reachesBelow(glob, folder []string) bool {
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

// unknownWord stands in a command line for a word that is not known.
const unknownWord = "…"

// Programs are the names of the program that a command line starts: as it is
// written, and without its folder. One that is not known is "".
func Programs(line string) []string {
	program, _, _ := strings.Cut(line, " ")
	if strings.Contains(program, unknownWord) {
		return []string{""}
	}
	if base := path.Base(program); base != program && program != "" {
		return []string{program, base}
	}
	return []string{program}
}

// matchCommand matches a pattern of one word against the program, by name or by
// path, and one of several against the whole line. A word that is not known may
// be what the pattern says.
func matchCommand(pattern, line string) bool {
	_, args, _ := strings.Cut(line, " ")
	names := Programs(line)
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
		at := fmt.Sprintf("%s[%d]", path, i)
		if !strings.HasPrefix(text, effectPrefix) {
			out = p.rule(out, at, text)
			continue
		}
		pattern, err := ParseEffectPattern(text)
		if err != nil {
			p.problem(at, "%w", err)
			continue
		}
		out = append(out, rule{effect: pattern, text: fmt.Sprintf("%s: %q", at, text)})
	}
	return out
}

// selects reports whether the rule is about the tool, or about a call of it; then because
// is the first of its effects that it is about. For a rule that is enforced on the call's
// programs, effects that are not known do not count, and using a folder is not using what is
// below it.
func (r *rule) selects(t *toolroom.Tool, call *Context) (because toolroom.Effect, ok bool) {
	if r.effect == nil {
		return because, r.pattern.Catches(t)
	}
	if call == nil {
		return because, false
	}
	var real []string
	for i, e := range call.Effects {
		known := r.effect.matches(e, &real)
		if known && e.Target != "" || (known || r.effect.below(e, &real)) && !call.enforces(r.effect.effect) {
			return call.Effects[i], true
		}
	}
	return because, false
}
