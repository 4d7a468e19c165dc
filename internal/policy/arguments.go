package policy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolroom/toolroom"
)

// declared are the names of a tool's arguments as its schema has them, by their
// folded form.
func declared(t *toolroom.Tool) map[string]string {
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.InputSchema, &schema) != nil {
		return nil // then no call of it is valid
	}
	names := make(map[string]string, len(schema.Properties))
	for name := range schema.Properties {
		names[folded(name)] = name
	}
	return names
}

// guarded returns arguments without names that could be mistaken for one another:
// many programs treat PATH as path, so that a rule would check one value and the
// tool use another. declared are the argument names of the tool's schema.
func guarded(arguments func() (any, error), declared map[string]string) func() (any, error) {
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
			if meant, ok := declared[folded(name)]; ok && meant != name && object[meant] == nil {
				return nil, fmt.Errorf("%q is not %q, but may be taken for it", name, meant)
			}
		}
		return tree, twins(tree)
	}
}

// twins returns an error if two names in one object may be mistaken for one
// another.
func twins(v any) error {
	switch v := v.(type) {
	case map[string]any:
		seen := make(map[string]string, len(v))
		for name, value := range v {
			if other, ok := seen[folded(name)]; ok {
				return fmt.Errorf("%q and %q may be taken for one another", min(name, other), max(name, other))
			}
			seen[folded(name)] = name
			if err := twins(value); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := twins(item); err != nil {
				return err
			}
		}
	}
	return nil
}

// folded is a name without what tells look-alikes apart: case, compatibility
// forms and invisible characters.
func folded(name string) string { return strings.ToLower(plain(name)) }
