// Package effects tells what a call would do before it runs: which files, hosts,
// commands and tables, whether it sends, spends or destroys. Rules of policy are
// about these, because names can be changed and effects cannot. [Of] brings
// together what the tool declares, what its source foresees, and, for tools that
// say nothing, the names of their arguments. In doubt it tells more, never less.
//
// [ReadShell] and [ReadArgs] tell what a command line would do before it runs: the
// programs behind wrappers such as sudo, env and sh -c, in pipelines and substitutions,
// with the files of redirects and of well-known programs. They read commands, not
// programs: what make, a script in Python or a plugin of git does in its own process is
// not seen. They fail closed: a program that they do not know may run any program, use any
// file and reach any host. Package restrict enforces what cannot be read.
//
// [ReadSQL] tells the verbs and tables of SQL text. It reads what all dialects have in
// common. What cannot be read for sure is reported as an effect without a target, which
// rules take for any.
package effects

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Bounds of one call: the effects that are told, the commands that are read, in bytes, and
// the files that are looked up. Beyond them all is unknown.
const (
	maxEffects  = 400
	maxCommands = 64 << 10
	maxLookups  = 20_000
)

// Place is where a call happens: relative paths begin in Dir, ~ is Home. Both
// are absolute. An empty Dir is where this process is, which is looked up for
// calls that have relative paths; an empty Home makes paths below ~ unknown.
type Place struct {
	Dir, Home string
}

func (p Place) dir() string {
	if p.Dir != "" {
		return p.Dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "" // relative paths are not known then
	}
	return dir
}

// Of tells the effects of one call: arguments is a JSON object, foreseen what
// the tool's source knows beyond Tool.Effects.
func Of(tool *toolroom.Tool, arguments json.RawMessage, foreseen []toolroom.Effect, place Place) []toolroom.Effect {
	s := &set{place: place, commands: maxCommands, lookups: maxLookups}
	if len(tool.Effects)+len(foreseen) > 0 {
		s.effects = []toolroom.Effect{}
	}
	for _, e := range foreseen {
		s.note(e)
	}
	switch {
	case len(tool.Effects) > 0:
		s.declared(tool.Effects, arguments)
	case len(foreseen) == 0:
		s.conventions(arguments)
	}
	if slices.Contains(s.effects, toolroom.Effect{Kind: toolroom.EffectCommand}) {
		// A program that is not known may use any file and reach any host.
		s.add(toolroom.Effect{Kind: toolroom.EffectFile})
		s.add(toolroom.Effect{Kind: toolroom.EffectHost})
	}
	s.hints(tool)
	if s.full() {
		return everything()
	}
	return s.effects
}

// everything is what is told of a call of which too much could be told.
func everything() []toolroom.Effect {
	var all []toolroom.Effect
	for _, kind := range []toolroom.EffectKind{
		toolroom.EffectCommand, toolroom.EffectFile, toolroom.EffectHost, toolroom.EffectSQL, toolroom.EffectSpend, toolroom.EffectSend, toolroom.EffectDestroy,
	} {
		all = append(all, toolroom.Effect{Kind: kind})
	}
	return all
}

// set collects the effects of a call, each once, in the order of finding.
type set struct {
	place   Place
	effects []toolroom.Effect
	// commands and lookups are what may still be read and looked up.
	commands, lookups int
}

// full reports whether a bound is passed, so that nothing more needs to be read.
func (s *set) full() bool {
	return len(s.effects) > maxEffects || s.commands < 0 || s.lookups < 0
}

// shell reads a command line.
func (s *set) shell(text string) []toolroom.Effect {
	if s.charge(text); s.full() {
		return nil
	}
	return ReadShell(text, s.place.dir())
}

// charge counts the text of a command. One that is too long to be read costs nothing.
func (s *set) charge(text string) {
	if s.commands--; len(text) <= shellMaxText {
		s.commands -= len(text)
	}
}

func (s *set) add(e toolroom.Effect) {
	if s.full() || slices.Contains(s.effects, e) {
		return
	}
	if s.effects == nil {
		s.effects = make([]toolroom.Effect, 0, 4) // most calls have few
	}
	s.effects = append(s.effects, e)
}

// note brings an effect into the form that rules match, and adds what follows
// from it.
func (s *set) note(e toolroom.Effect) {
	if s.full() {
		return
	}
	switch e.Kind {
	case toolroom.EffectNone:
		return
	case toolroom.EffectFile:
		s.files(e)
		return
	case toolroom.EffectHost:
		e.Target = hostPort(e.Target)
	case toolroom.EffectSpend:
		amount, ok := ParseAmount(e.Target)
		if e.Target = ""; ok {
			e.Target = amount.String()
		}
	}
	s.add(e)
	switch e.Kind {
	case toolroom.EffectCommand:
		if e.Target == "" {
			s.add(toolroom.Effect{Kind: toolroom.EffectSend})
			s.add(toolroom.Effect{Kind: toolroom.EffectDestroy})
		}
	case toolroom.EffectHost:
		if !isHere(e.Target) {
			s.add(toolroom.Effect{Kind: toolroom.EffectSend, Target: e.Target})
		}
		if e.Mode == "delete" {
			s.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	case toolroom.EffectSQL:
		if slices.Contains([]string{"", "drop", "truncate", "delete"}, e.Mode) {
			s.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	}
}

// files notes every file that the text of an effect can mean.
func (s *set) files(e toolroom.Effect) {
	targets := []string{""}
	if e.Target != "" {
		targets = paths(e.Target, s.place, &s.lookups)
	}
	for _, e.Target = range targets {
		s.add(e)
		if e.Mode == "delete" {
			s.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	}
}

// hints adds what follows from the hints. An MCP server's hints are its own
// claims: they make things stricter, and what they do not say is taken for the
// worst, unless the operator has declared the effects of the tool. A tool of
// one's own that declares its effects is taken at its word.
func (s *set) hints(tool *toolroom.Tool) {
	destroys, sends := tool.Hints.IsDestructive(), tool.Hints.IsOpenWorld()
	bySource := tool.Source == toolroom.SourceHTTP || tool.Source == toolroom.SourceOpenAPI || tool.Source == toolroom.SourceGraphQL || tool.Source == toolroom.SourceCLI
	switch {
	case len(tool.Effects) > 0 && !bySource:
		destroys = tool.Hints.Destructive != nil && *tool.Hints.Destructive
		sends = tool.Hints.OpenWorld != nil && *tool.Hints.OpenWorld
	case tool.Source == toolroom.SourceMCP:
		destroys, sends = true, true
	}
	if destroys && !s.has(toolroom.EffectDestroy) {
		s.add(toolroom.Effect{Kind: toolroom.EffectDestroy})
	}
	if sends && !s.has(toolroom.EffectSend) {
		s.add(toolroom.Effect{Kind: toolroom.EffectSend})
	}
}

func (s *set) has(kind toolroom.EffectKind) bool {
	return slices.ContainsFunc(s.effects, func(e toolroom.Effect) bool { return e.Kind == kind })
}

// decode gives the arguments as a tree; false for what is no JSON object.
func decode(arguments json.RawMessage) (map[string]any, bool) {
	if len(arguments) == 0 {
		return nil, true
	}
	tree, err := jsonx.Decode(arguments, jsonx.Limits{})
	if err != nil {
		return nil, false
	}
	object, ok := tree.(map[string]any)
	return object, ok
}
