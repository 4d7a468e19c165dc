// Package effects predicts the effects of a call before it runs: the files, hosts,
// commands and tables that it uses, and whether it sends, spends or destroys. Policy
// rules match effects, because a tool can be renamed but its effects stay the same. [Of]
// combines the effects that the tool declares, those that its source predicts, and, for
// tools that declare none, those that their arguments suggest. If in doubt, it reports
// too many effects, never too few.
//
// [ReadShell] and [ReadArgs] predict the effects of a command line. They find programs
// behind wrappers such as sudo, env and sh -c, in pipelines and in substitutions, and the
// files of redirects and of well-known programs. They read commands, not programs: they
// cannot see what make, a Python script or a git plugin does in its own process. They fail
// closed: a program that they do not know may run any program, use any file and reach any
// host. Package restrict enforces the rules for what cannot be read.
//
// [ReadSQL] reports the verbs and tables of SQL text. It reads the syntax that all dialects
// share. If it cannot be sure, it reports an effect without a target, which rules treat as
// any target.
package effects

import (
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// Limits of one call: the effects reported, the bytes of commands read, and the files looked
// up. A call that exceeds one of them is reported as having every effect.
const (
	maxEffects  = 400
	maxCommands = 64 << 10
	maxLookups  = 20_000
)

// PathBase resolves the paths of a call: relative paths start at Dir, and ~ is Home. Both are
// absolute. If Dir is empty, it is the working directory of this process, which is looked
// up only for calls with relative paths. If Home is empty, paths below ~ are unknown.
type PathBase struct {
	Dir, Home string
}

func (p PathBase) dir() string {
	if p.Dir != "" {
		return p.Dir
	}
	dir, err := os.Getwd()
	if err != nil {
		return "" // relative paths are unknown then
	}
	return dir
}

// Of returns the predicted effects of one call. arguments is a JSON object; predicted are
// the effects that the tool's source predicts in addition to Tool.Effects.
func Of(tool *toolroom.Tool, arguments json.RawMessage, predicted []toolroom.Effect, base PathBase) []toolroom.Effect {
	c := &collector{base: base, commands: maxCommands, lookups: maxLookups}
	if len(tool.Effects)+len(predicted) > 0 {
		c.effects = []toolroom.Effect{}
	}
	for _, e := range predicted {
		c.addNormalized(e)
	}
	switch {
	case len(tool.Effects) > 0:
		c.addDeclared(tool.Effects, arguments)
	case len(predicted) == 0:
		c.readByConvention(arguments)
	}
	if slices.Contains(c.effects, toolroom.Effect{Kind: toolroom.EffectCommand}) {
		// An unknown program may use any file and reach any host.
		c.add(toolroom.Effect{Kind: toolroom.EffectFile})
		c.add(toolroom.Effect{Kind: toolroom.EffectHost})
	}
	c.addHinted(tool)
	if c.full() {
		return everyKind()
	}
	return c.effects
}

// everyKind returns one effect of each kind, without a target. It stands for a call that
// exceeds the limits.
func everyKind() []toolroom.Effect {
	var all []toolroom.Effect
	for _, kind := range []toolroom.EffectKind{
		toolroom.EffectCommand, toolroom.EffectFile, toolroom.EffectHost, toolroom.EffectSQL, toolroom.EffectSpend, toolroom.EffectSend, toolroom.EffectDestroy,
	} {
		all = append(all, toolroom.Effect{Kind: kind})
	}
	return all
}

// collector collects the effects of a call, each once, in the order in which they are found.
type collector struct {
	base    PathBase
	effects []toolroom.Effect
	// commands is how many bytes of commands may still be read, and lookups how many files
	// may still be looked up.
	commands, lookups int
}

// full reports whether a limit is exceeded, so that nothing more needs to be read.
func (c *collector) full() bool {
	return len(c.effects) > maxEffects || c.commands < 0 || c.lookups < 0
}

// readCommandLine returns the effects of a command line, or nil if the limit is exceeded.
func (c *collector) readCommandLine(text string) []toolroom.Effect {
	if c.charge(text); c.full() {
		return nil
	}
	return ReadShell(text, c.base.dir())
}

// charge counts the bytes of a command. One that is too long to be read costs only one.
func (c *collector) charge(text string) {
	if c.commands--; len(text) <= shellMaxText {
		c.commands -= len(text)
	}
}

func (c *collector) add(e toolroom.Effect) {
	if c.full() || slices.Contains(c.effects, e) {
		return
	}
	if c.effects == nil {
		c.effects = make([]toolroom.Effect, 0, 4) // most calls have few
	}
	c.effects = append(c.effects, e)
}

// addNormalized adds an effect in the form that rules match, and the effects that it
// implies.
func (c *collector) addNormalized(e toolroom.Effect) {
	if c.full() {
		return
	}
	switch e.Kind {
	case toolroom.EffectNone:
		return
	case toolroom.EffectFile:
		c.addFiles(e)
		return
	case toolroom.EffectHost:
		e.Target = hostPort(e.Target)
	case toolroom.EffectSpend:
		amount, ok := ParseAmount(e.Target)
		if e.Target = ""; ok {
			e.Target = amount.String()
		}
	case toolroom.EffectSQL: // names in the form of ReadSQL
		e.Target = strings.ToLower(strings.TrimSpace(sqlQuotes.Replace(e.Target)))
	}
	c.add(e)
	switch e.Kind {
	case toolroom.EffectCommand:
		if e.Target == "" {
			c.add(toolroom.Effect{Kind: toolroom.EffectSend})
			c.add(toolroom.Effect{Kind: toolroom.EffectDestroy})
		}
	case toolroom.EffectHost:
		if !isLoopback(e.Target) {
			c.add(toolroom.Effect{Kind: toolroom.EffectSend, Target: e.Target})
		}
		if e.Mode == "delete" {
			c.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	case toolroom.EffectSQL:
		if slices.Contains([]string{"", "drop", "truncate", "delete"}, e.Mode) {
			c.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	}
}

// sqlQuotes removes the quotes of names in SQL.
var sqlQuotes = strings.NewReplacer(`"`, "", "`", "", "[", "", "]", "")

// addFiles adds an effect on every file that e.Target can mean.
func (c *collector) addFiles(e toolroom.Effect) {
	targets := []string{""}
	if e.Target != "" {
		targets = possiblePaths(e.Target, c.base, &c.lookups)
	}
	for _, e.Target = range targets {
		c.add(e)
		if e.Mode == "delete" {
			c.add(toolroom.Effect{Kind: toolroom.EffectDestroy, Target: e.Target})
		}
	}
}

// addHinted adds the effects that follow from the tool's hints. The hints of an MCP server
// are claims that nobody has checked: they can only make rules stricter, and a missing hint
// means the worst case, unless the operator has declared the effects of the tool. A tool of
// the operator that declares its effects is trusted.
func (c *collector) addHinted(tool *toolroom.Tool) {
	destroys, sends := tool.Hints.IsDestructive(), tool.Hints.IsOpenWorld()
	bySource := tool.Source == toolroom.SourceHTTP || tool.Source == toolroom.SourceOpenAPI || tool.Source == toolroom.SourceGraphQL || tool.Source == toolroom.SourceCLI
	switch {
	case len(tool.Effects) > 0 && !bySource:
		destroys = tool.Hints.Destructive != nil && *tool.Hints.Destructive
		sends = tool.Hints.OpenWorld != nil && *tool.Hints.OpenWorld
	case tool.Source == toolroom.SourceMCP:
		destroys, sends = true, true
	}
	if destroys && !c.has(toolroom.EffectDestroy) {
		c.add(toolroom.Effect{Kind: toolroom.EffectDestroy})
	}
	if sends && !c.has(toolroom.EffectSend) {
		c.add(toolroom.Effect{Kind: toolroom.EffectSend})
	}
}

func (c *collector) has(kind toolroom.EffectKind) bool {
	return slices.ContainsFunc(c.effects, func(e toolroom.Effect) bool { return e.Kind == kind })
}

// decodeArguments decodes the arguments. ok is false if they are not a JSON object.
func decodeArguments(arguments json.RawMessage) (object map[string]any, ok bool) {
	if len(arguments) == 0 {
		return nil, true
	}
	tree, err := jsonx.Decode(arguments, jsonx.Limits{})
	if err != nil {
		return nil, false
	}
	object, ok = tree.(map[string]any)
	return object, ok
}
