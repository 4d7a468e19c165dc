package schema

import (
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A meter bounds the work of one check. A small schema can ask for endless work:
// {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}} doubles it with each level
// of the document, and large enums, uniqueItems and patterns multiply it. No look
// at the schema alone tells the harmless from the hostile: ordinary recursive
// unions are exponential too, in depths that do not occur.
//
// The validator offers no way to interrupt it, but it calls the format of a
// subschema each time that it evaluates one. So each subschema gets a format that
// counts and, when the steps are spent, panics; the checker recovers. What an
// evaluation is about to cost is charged at its start, including that part of
// its children (type, const, enum) that the validator looks at before their format.
type meter struct {
	steps, left int       // allowed in a check, left of them
	programs    int       // instructions of the regular expressions compiled so far
	deadline    time.Time // of the compilation of the schema, zero after it
}

func (m *meter) reset() { m.left, m.programs = m.steps, 0 }

func (m *meter) charge(steps int) {
	m.left -= steps
	if m.left < 0 {
		panic(&Error{
			Kind: TooLarge, Reason: fmt.Sprintf("checking the document takes more than %d steps", m.steps),
			Hint: "send less in one call, or simplify the schema",
		})
	}
}

// stepTime is what work that only a clock can measure may take for one step.
const stepTime = time.Microsecond

func (m *meter) chargeTime(start time.Time) { m.charge(1 + int(time.Since(start)/stepTime)) }

// checkDeadline stops a compilation that takes too long, in the same way.
func (m *meter) checkDeadline() {
	if !m.deadline.IsZero() && time.Now().After(m.deadline) {
		panic(tooLarge("", "it takes too long to compile"))
	}
}

// attach puts the counting format in front of the format of s.
func (m *meter) attach(s *jsonschema.Schema) {
	price := newEvaluationCost(s)
	counted := jsonschema.Format{Validate: func(v any) error {
		m.charge(price.forValue(v))
		return nil
	}}
	if format := s.Format; format != nil {
		counted.Name = format.Name
		counted.Validate = func(v any) error {
			m.charge(price.forValue(v) + formatCost(v))
			return format.Validate(v)
		}
	}
	s.Format = &counted
}

// An evaluationCost is what one evaluation of a subschema costs, in steps.
type evaluationCost struct {
	fixed  int  // itself and the first look at what applies to the same value
	each   int  // the first look at one member or element
	unique bool // uniqueItems, which compares objects and arrays pair by pair
}

func newEvaluationCost(s *jsonschema.Schema) evaluationCost {
	p := evaluationCost{fixed: 1, each: 1, unique: s.UniqueItems}
	for in := range inPlace(s) {
		p.fixed += upfrontCost(in)
	}
	for below := range children(s) {
		p.each = max(p.each, upfrontCost(below))
	}
	if s.DynamicRef != nil || s.RecursiveRef != nil {
		p.fixed += maxChain // resolving walks all scopes
	}
	return p
}

func (p evaluationCost) forValue(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return p.fixed + p.each*len(v)
	case []any:
		cost := p.fixed + p.each*len(v)
		if p.unique {
			// The validator's hash of objects and arrays can be made to collide
			// at will, so that it compares all of them with each other.
			n := countComposites(v)
			cost += n * n / 8
		}
		return cost
	case string:
		return p.fixed + len(v)/128
	default:
		return p.fixed
	}
}

// formatCost is what looking for a format in a value costs. Some formats split
// the text at every other character.
func formatCost(v any) int {
	text, _ := v.(string)
	return len(text) / 16
}

func countComposites(items []any) int {
	n := 0
	for _, item := range items {
		switch item.(type) {
		case map[string]any, []any:
			n++
		}
	}
	return n
}

// upfrontCost is what the validator does with a subschema before its format is
// called: in the worst case compare the value with all of its const and enum.
func upfrontCost(s *jsonschema.Schema) int {
	cost := 0
	if s.Const != nil {
		cost += comparisonCost(*s.Const)
	}
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			cost += comparisonCost(value)
		}
	}
	return 1 + cost/comparisonsPerStep
}

// comparisonsPerStep is how many strings are compared in the time of a step.
const comparisonsPerStep = 64

func comparisonCost(value any) int {
	switch value := value.(type) {
	case nil, bool, string:
		return 1
	case map[string]any:
		cost := 4
		for _, member := range value {
			cost += 4 + comparisonCost(member)
		}
		return cost
	case []any:
		cost := 4
		for _, item := range value {
			cost += comparisonCost(item)
		}
		return cost
	default: // a number, compared as a fraction
		return comparisonsPerStep
	}
}
