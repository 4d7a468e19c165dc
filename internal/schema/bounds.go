package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A sizeCounter counts what a schema text would cost the validator.
type sizeCounter struct {
	limits     Limits
	subschemas int
	pointers   int
}

// count walks a schema text that jsonx has bounded in size and depth. length is
// that of the pointer that path makes.
func (c *sizeCounter) count(value any, path []string, length int) *Error {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if err := c.count(member, append(path, name), length+1+len(name)); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range value {
			token := strconv.Itoa(i)
			if err := c.count(item, append(path, token), length+1+len(token)); err != nil {
				return err
			}
		}
		if countComposites(value) > maxComposites {
			return tooLarge(pointerTo(path), fmt.Sprintf("more than %d objects and arrays in one array", maxComposites))
		}
	case bool:
	case json.Number:
		if reason := numberExcess(value); reason != "" {
			return tooLarge(pointerTo(path), reason)
		}
		return nil
	default:
		return nil
	}
	c.subschemas++
	c.pointers += length
	switch {
	case c.subschemas > c.limits.Subschemas:
		return tooLarge("", fmt.Sprintf("more than %d objects, arrays and booleans", c.limits.Subschemas))
	case c.pointers > maxPointers:
		return tooLarge("", "names of members are too long for the number of subschemas below them")
	}
	return nil
}

func tooLarge(pointer, reason string) *Error {
	return &Error{Kind: TooLarge, Pointer: pointer, Reason: reason, Hint: "simplify the schema"}
}

// numberExcess says why a number is beyond what the validator may compute with.
func numberExcess(n json.Number) string {
	text := string(n)
	if len(text) > maxNumber {
		return fmt.Sprintf("a number of %d characters, the limit is %d", len(text), maxNumber)
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exponent, err := strconv.Atoi(text[i+1:])
		if err != nil || exponent < -maxNumber || exponent > maxNumber {
			return fmt.Sprintf("number %s with an exponent beyond %d", shorten(text, 40), maxNumber)
		}
	}
	return ""
}

// An excess is a place of a document that the validator must not see: nesting
// too deep for its stack, or a number that it would take ages for.
type excess struct {
	path          []string // from the place up to the root
	expected, got string
}

// findExcesses finds all of them. It allocates nothing for a document without any.
func findExcesses(value any, depth int) []excess {
	if depth > maxDocumentDepth {
		return []excess{{expected: fmt.Sprintf("at most %d levels of nesting", maxDocumentDepth), got: "more"}}
	}
	var found []excess
	up := func(below []excess, token string) {
		for _, t := range below {
			t.path = append(t.path, token)
			found = append(found, t)
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			if below := findExcesses(member, depth+1); below != nil {
				up(below, name)
			}
		}
	case []any:
		for i, item := range value {
			if below := findExcesses(item, depth+1); below != nil {
				up(below, strconv.Itoa(i))
			}
		}
	case json.Number:
		if reason := numberExcess(value); reason != "" {
			found = []excess{{expected: "a number in range", got: reason}}
		}
	}
	return found
}

func excessFailure(excesses []excess) *Failure {
	problems := make([]Problem, 0, len(excesses))
	for _, t := range excesses {
		slices.Reverse(t.path)
		problems = append(problems, newProblem(t.path, "", t.expected, t.got))
	}
	return newFailure(problems, 0)
}
