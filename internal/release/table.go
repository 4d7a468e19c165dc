package release

import (
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Table is the state of all releases at one time. It is immutable.
type Table struct {
	Revision int64
	// tools maps the id of each versioned tool to its releases by environment.
	tools map[string]map[string]Release
	ids   []string
	// named are the tools of each name, without its namespace.
	named map[string][]toolroom.ID
	// sources are the sources that define tools, by tool; functions have none.
	sources map[string]string
	// newest are the newest versions.
	newest map[string]int
	// released are the versions that some environment has served, by tool, with the
	// environments.
	released map[string]map[int][]string
	// began are the last entries of each tool and environment.
	began map[string]Entry
}

// Choice is the version of a tool that serves a call.
type Choice struct {
	Tool    string
	Version int
}

// InProd returns the version of a tool that prod serves, or zero.
func (t *Table) InProd(tool string) int { return t.tools[tool][Prod].Version }

// Source returns the source that defines a tool, or "" for a function.
func (t *Table) Source(tool string) string { return t.sources[tool] }

// Choose returns the version that serves a call of an identity in an environment. Known is
// false if the spelling means no versioned tool.
func (t *Table) Choose(spelling, environment string, who toolroom.Identity) (c Choice, known bool, err error) {
	readings, err := toolroom.Spellings(spelling)
	if err != nil {
		return Choice{}, false, nil // the catalog reports it
	}
	matches := t.match(readings)
	switch {
	case len(matches) == 0:
		return Choice{}, false, nil
	case len(matches) > 1:
		// The table does not know which of them the caller may see.
		e := toolroom.Errorf(toolroom.CodeAmbiguousTool, "%q can mean several tools", spelling)
		return Choice{}, true, e.WithHint("write the whole id, NAMESPACE:%s", readings[0].Name)
	}
	tool := matches[0]
	number, err := parseNumber(readings[0].Version)
	if err != nil {
		return Choice{}, true, err
	}
	if environment == "" {
		environment = Prod
	}
	if t.sources[tool] != "" && number == 0 {
		return Choice{tool, t.tools[tool][Prod].Version}, true, nil
	}
	if number > 0 {
		return t.chooseNumber(tool, number, environment, who)
	}
	if environment == Draft {
		return Choice{tool, t.newest[tool]}, true, nil
	}
	r, ok := t.tools[tool][environment]
	if !ok {
		return Choice{}, true, t.unreleasedError(tool, environment, who)
	}
	if r.Canary != 0 && !r.Shadow && r.Takes(tool, who) {
		return Choice{tool, r.Canary}, true, nil
	}
	return Choice{tool, r.Version}, true, nil
}

// Shadow returns the version that runs as a shadow of the given one for a caller in an
// environment, with its rule.
func (t *Table) Shadow(tool, environment string, version int, who toolroom.Identity) (Choice, CanaryRule, bool) {
	r := t.tools[tool][environment]
	if r.Canary == 0 || !r.Shadow || r.Version != version || !r.Takes(tool, who) {
		return Choice{}, CanaryRule{}, false
	}
	return Choice{tool, r.Canary}, r.CanaryRule, true
}

// match returns the tools that one of the readings means.
func (t *Table) match(readings []toolroom.ID) []string {
	var matches []string
	for _, r := range readings {
		for _, id := range t.named[r.Name] {
			if tool := id.String(); (r.Namespace == "" || r.Namespace == id.Namespace) && !slices.Contains(matches, tool) {
				matches = append(matches, tool)
			}
		}
	}
	return matches
}

// chooseNumber returns a version that the caller names. Only versions that were once released can
// be called, and by a caller who is bound to an environment, only those that were released
// there.
func (t *Table) chooseNumber(tool string, number int, environment string, who toolroom.Identity) (Choice, bool, error) {
	if number > t.newest[tool] {
		return Choice{}, true, toolroom.Errorf(toolroom.CodeToolNotFound, "%s has no version %d", tool, number).WithCLIHint("list its versions: toolroom tool show %s", tool)
	}
	if where := t.released[tool][number]; environment != Draft && who.Environment != "" && t.sources[tool] == "" && !slices.Contains(where, who.Environment) && len(where) > 0 {
		e := toolroom.Errorf(toolroom.CodeDenied, "version %d of %s was never released to %s, to which your token is bound", number, tool, who.Environment)
		return Choice{}, true, e.WithHint("leave the version out").WithCLIHint("toolroom tool release %s@%d --env %s", tool, number, who.Environment)
	}
	if environment != Draft && len(t.released[tool][number]) == 0 {
		e := toolroom.Errorf(toolroom.CodeToolNotFound, "version %d of %s was never released", number, tool)
		return Choice{}, true, e.WithCLIHint("release it: toolroom tool release %s@%d --env test", tool, number)
	}
	return Choice{tool, number}, true, nil
}

func (t *Table) unreleasedError(tool, environment string, who toolroom.Identity) error {
	e := toolroom.Errorf(toolroom.CodeToolNotFound, "%s is not released to %s", tool, environment)
	if newest := t.newest[tool]; slices.Contains(t.released[tool][newest], environment) {
		// Without a version, a release would bring back the one that was taken back.
		e = e.WithCLIHint("version %d was taken back; choose a version: toolroom tool show %s", newest, tool)
	} else {
		e = e.WithCLIHint("release it: toolroom tool release %s --env %s", tool, environment)
	}
	if who.Environment != "" {
		return e.WithHint("your token is bound to %s; an operator can release the tool there", who.Environment)
	}
	if others := slices.Sorted(maps.Keys(t.tools[tool])); len(others) > 0 {
		return e.WithHint("it is released to %s; choose one with the header Toolroom-Environment (--env at the command line)", strings.Join(others, ", "))
	}
	return e
}

// callerPercent returns a number from 0 to 99 that is always the same for one caller and tool.
func callerPercent(tool string, who toolroom.Identity) int {
	h := fnv.New32a()
	h.Write([]byte(tool + "\x00" + who.String()))
	return int(h.Sum32() % 100)
}

// Serving returns the versions that prod serves to most callers.
func (t *Table) Serving() []Choice {
	var out []Choice
	for _, id := range t.ids {
		if r, ok := t.tools[id][Prod]; ok {
			out = append(out, Choice{id, r.Version})
		}
	}
	return out
}

// ServedOutsideProd returns a served version of each function that prod does not serve.
func (t *Table) ServedOutsideProd() []Choice {
	var out []Choice
	for _, id := range t.ids {
		if _, ok := t.tools[id][Prod]; ok || len(t.tools[id]) == 0 || t.sources[id] != "" {
			continue
		}
		first := slices.Sorted(maps.Keys(t.tools[id]))[0]
		out = append(out, Choice{id, t.tools[id][first].Version})
	}
	return out
}

// Served returns the versions of functions that some environment serves, also as canary or
// shadow.
func (t *Table) Served() map[Choice]bool {
	out := map[Choice]bool{}
	for tool, releases := range t.tools {
		if t.sources[tool] != "" {
			continue
		}
		for _, r := range releases {
			out[Choice{tool, r.Version}] = true
			if r.Canary != 0 {
				out[Choice{tool, r.Canary}] = true
			}
		}
	}
	return out
}

// Changed returns the functions of which another table serves something else.
func (t *Table) Changed(before *Table) []string {
	var out []string
	for _, id := range t.ids {
		if t.sources[id] == "" && !reflect.DeepEqual(t.tools[id], before.tools[id]) {
			out = append(out, id)
		}
	}
	return out
}
