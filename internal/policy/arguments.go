package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// declaredArguments returns the argument names of a tool's schema, by the result of foldName.
func declaredArguments(t *toolroom.Tool) map[string]string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return nil // no call of the tool is valid then
	}
	names := make(map[string]string, len(schema.Properties))
	for name := range schema.Properties {
		names[foldName(name)] = name
	}
	return names
}

// rejectLookAlikes wraps arguments to return an error if a program could mistake one name in
// them for another. Many programs treat PATH as path, so a rule would check one value and the
// tool would use another. declared are the argument names of the tool's schema.
func rejectLookAlikes(arguments func() (any, error), declared map[string]string) func() (any, error) {
	return func() (any, error) {
		tree, err := arguments()
		if err != nil {
			return nil, err
		}
		object, ok := tree.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("they are not a JSON object")
		}
		for name := range object {
			if meant, ok := declared[foldName(name)]; ok && meant != name && object[meant] == nil {
				return nil, fmt.Errorf("%q is not %q, but may be taken for it", name, meant)
			}
		}
		return tree, checkLookAlikes(tree)
	}
}

// checkLookAlikes returns an error if two names of one object in v may be mistaken for each
// other.
func checkLookAlikes(v any) error {
	switch v := v.(type) {
	case map[string]any:
		seen := make(map[string]string, len(v))
		for name, value := range v {
			if other, ok := seen[foldName(name)]; ok {
				return fmt.Errorf("%q and %q may be taken for one another", min(name, other), max(name, other))
			}
			seen[foldName(name)] = name
			if err := checkLookAlikes(value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := checkLookAlikes(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// foldName removes what distinguishes a name from its look-alikes: case, compatibility forms
// and invisible characters.
func foldName(name string) string { return strings.ToLower(normalizeText(name)) }
