package release

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

// The gates that a release passes.
const (
	GateCases      = "cases"
	GateCompatible = "compatibility"
	GatePerson     = "second_person"
)

// Refusal says why a gate refuses a release.
type Refusal struct {
	Gate   string   `json:"gate"`
	Reason string   `json:"reason"`
	Detail []string `json:"detail,omitempty"`
}

// gates returns the gates that refuse to release v. The environment test has none.
func (s *Service) gates(ctx context.Context, v *Version, current Release, o Order, who string) []Refusal {
	if o.Environment == Test {
		return nil
	}
	rules := s.Rules()
	var refused []Refusal
	if rules.Cases {
		if r := s.casesGate(ctx, v); r != nil {
			refused = append(refused, *r)
		}
	}
	if rules.Compatible && current.Version != 0 && current.Version != v.Number {
		if r := s.compatibleGate(ctx, v, current.Version); r != nil {
			refused = append(refused, *r)
		}
	}
	if rules.SecondPerson && v.Author == who {
		refused = append(refused, Refusal{Gate: GatePerson, Reason: fmt.Sprintf("%s wrote version %d, and another person must release it", who, v.Number)})
	}
	return refused
}

func (s *Service) casesGate(ctx context.Context, v *Version) *Refusal {
	outcomes, err := s.TestCases(ctx, v)
	if err != nil {
		return &Refusal{Gate: GateCases, Reason: "the saved cases could not be run: " + err.Error()}
	}
	var failed []string
	for _, o := range outcomes {
		if !o.OK {
			failed = append(failed, o.Case+": "+o.Problem)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &Refusal{Gate: GateCases, Reason: fmt.Sprintf("%d of %d saved cases fail on version %d", len(failed), len(outcomes), v.Number), Detail: failed}
}

// recentCalls is how far back the gate looks for callers that a change breaks.
const recentCalls = 30 * 24 * time.Hour

func (s *Service) compatibleGate(ctx context.Context, v *Version, current int) *Refusal {
	before, err := s.Store.Version(ctx, v.Tool, current)
	if err != nil {
		return &Refusal{Gate: GateCompatible, Reason: err.Error()}
	}
	breaks := Breaks(&before.Spec, &v.Spec)
	if len(breaks) == 0 {
		return nil
	}
	r := &Refusal{Gate: GateCompatible, Reason: fmt.Sprintf("version %d breaks callers of version %d: %s", v.Number, current, strings.Join(breaks, "; ")), Detail: breaks}
	outputs := slices.ContainsFunc(breaks, func(b string) bool { return strings.HasPrefix(b, "value") })
	if callers := s.brokenCallers(ctx, v, outputs); len(callers) > 0 {
		r.Reason += "; called so in the last 30 days by " + strings.Join(callers, ", ")
		r.Detail = append(r.Detail, "callers: "+strings.Join(callers, ", "))
	}
	return r
}

// brokenCallers describes the callers that recently called the tool with arguments that v does not
// accept, and what is wrong with these. If outputs is set, it also lists all other recent callers,
// because any of them may read a value that no longer exists.
func (s *Service) brokenCallers(ctx context.Context, v *Version, outputs bool) []string {
	input, err := schema.Compile(v.Spec.InputSchema, schema.Limits{})
	if err != nil {
		return nil
	}
	past, err := s.Past(ctx, v.Tool, s.Now().Add(-recentCalls))
	if err != nil {
		return nil // it only adds to the reason
	}
	var callers []string
	for caller, calls := range past {
		n, first := 0, ""
		for _, arguments := range calls {
			tree, err := jsonx.Decode(arguments, jsonx.Limits{})
			if err != nil {
				continue
			}
			if err := input.Validate(tree); err != nil {
				n, first = n+1, cmp.Or(first, err.Error())
			}
		}
		switch {
		case n > 0:
			callers = append(callers, fmt.Sprintf("%s (%d of %d calls, for example %s)", caller, n, len(calls), first))
		case outputs:
			callers = append(callers, fmt.Sprintf("%s (%d calls, which got the value)", caller, len(calls)))
		}
	}
	slices.Sort(callers)
	return callers
}

func gateError(v *Version, o Order, refused []Refusal) error {
	reasons := make([]string, len(refused))
	for i, r := range refused {
		reasons[i] = r.Gate + ": " + r.Reason
	}
	e := toolroom.Errorf(toolroom.CodeConflict, "version %d of %s is not released to %s: %s", v.Number, v.Tool, o.Environment, strings.Join(reasons, "; "))
	e.Details = map[string]any{"gates": refused}
	fix, see := "fix it and push again", ""
	switch {
	case len(refused) == 1 && refused[0].Gate == GatePerson:
		fix = "let another person release it"
	case slices.ContainsFunc(refused, func(r Refusal) bool { return r.Gate == GateCases }):
		see = fmt.Sprintf("see the cases: toolroom tool test %s@%d; remove one that is wrong: toolroom tool case remove %[1]s NAME; ", v.Tool, v.Number)
	}
	return e.WithHint("%s, or release it with force and a reason", fix).WithCLIHint("%srelease it nevertheless: --force --reason WHY", see)
}

// Breaks returns how callers of the spec before can break with after: arguments that were
// accepted and no longer are, and values that did not occur before.
func Breaks(before, after *Spec) []string {
	c := comparison{left: maxPaths}
	c.compare("argument", tree(before.InputSchema), tree(after.InputSchema), true)
	if len(before.OutputSchema) > 0 {
		c.compare("value", tree(before.OutputSchema), tree(after.OutputSchema), false)
	}
	slices.Sort(c.breaks)
	return c.breaks
}

func tree(raw json.RawMessage) map[string]any {
	var m map[string]any
	_ = json.Unmarshal(raw, &m) // a schema that is no object allows everything
	return m
}

// maxPaths bounds the text that one comparison makes of paths, in bytes: a long name above
// many members would be repeated for each of them.
const maxPaths = 4 << 20

// A comparison collects the breaks between two schemas.
type comparison struct {
	breaks []string
	left   int // bytes that paths may still take
}

// takePath reports whether a text of n bytes about a path may still be made. If not, it adds
// that there are further breaks, once.
func (c *comparison) takePath(path string, n int) bool {
	if c.left < 0 {
		return false
	}
	if c.left -= n; c.left < 0 {
		kind, _, _ := strings.Cut(path, " ")
		c.breaks = append(c.breaks, kind+" differs in more places than can be listed")
		return false
	}
	return true
}

func (c *comparison) add(path, format string, args ...any) {
	if text := fmt.Sprintf(format, args...); c.takePath(path, len(path)+len(text)) {
		c.breaks = append(c.breaks, path+text)
	}
}

// compare compares two schemas of one place. For inputs, what was allowed must stay allowed;
// for outputs, what is possible must have been possible.
func (c *comparison) compare(path string, before, after map[string]any, input bool) {
	c.types(path, words(before["type"]), words(after["type"]), input)
	c.enums(path, before["enum"], after["enum"], input)
	was, is := members(before), members(after)
	names := slices.Sorted(maps.Keys(was))
	for _, name := range names {
		if _, ok := is[name]; !ok && (!input || after["additionalProperties"] == false) {
			c.add(path, " %s was removed", name)
		}
	}
	wasRequired, isRequired := words(before["required"]), words(after["required"])
	if input {
		for _, name := range subtract(isRequired, wasRequired) {
			c.add(path, " %s is now required", name)
		}
	} else {
		for _, name := range subtract(wasRequired, isRequired) {
			if _, ok := is[name]; ok {
				c.add(path, " %s may now be missing", name)
			}
		}
	}
	for _, name := range names {
		if i, ok := is[name]; ok {
			c.comparePart(path, name, object(was[name]), object(i), input)
		}
	}
	if w, i := object(before["items"]), object(after["items"]); w != nil && i != nil {
		c.comparePart(path, "[]", w, i, input)
	}
}

// comparePart compares the schemas of a place within the path.
func (c *comparison) comparePart(path, name string, before, after map[string]any, input bool) {
	if !reflect.DeepEqual(before, after) && c.takePath(path, len(path)+len(name)) {
		c.compare(path+" "+name, before, after, input)
	}
}

// types adds a type that an input no longer has, or that an output has now.
func (c *comparison) types(path string, before, after []string, input bool) {
	wide, narrow := before, after
	if !input {
		wide, narrow = after, before
	}
	allowed := set(narrow)
	for _, t := range wide {
		if len(narrow) > 0 && !allowed[t] && !(t == "integer" && allowed["number"]) {
			c.add(path, " is now %s, and was %s", strings.Join(after, " or "), strings.Join(before, " or "))
			return
		}
	}
}

// enums adds the values that an input no longer allows, or that an output may have now.
func (c *comparison) enums(path string, before, after any, input bool) {
	wide, narrow, unlimited, more := before, after, " is now limited to some values", " no longer allows %s"
	if !input {
		wide, narrow, unlimited, more = after, before, " is no longer limited to some values", " may now be %s"
	}
	allowed, limited := narrow.([]any)
	possible, was := wide.([]any)
	switch {
	case !limited:
		return
	case !was:
		c.add(path, "%s", unlimited)
		return
	}
	known := make(map[string]bool, len(allowed))
	for _, v := range allowed {
		known[jsonText(v)] = true
	}
	for _, v := range possible {
		if !known[jsonText(v)] {
			c.add(path, more, cmp.Or(plainText(v), "null"))
		}
	}
}

// subtract returns the words of a list that are not in another one.
func subtract(list, other []string) []string {
	in := set(other)
	return slices.DeleteFunc(slices.Clone(list), func(word string) bool { return in[word] })
}

func set(list []string) map[string]bool {
	in := make(map[string]bool, len(list))
	for _, word := range list {
		in[word] = true
	}
	return in
}

func members(s map[string]any) map[string]any { return object(s["properties"]) }

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// words returns a text or a list of texts as a list.
func words(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var list []string
		for _, w := range v {
			if text, ok := w.(string); ok {
				list = append(list, text)
			}
		}
		return list
	}
	return nil
}
