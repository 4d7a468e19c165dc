package catalog

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Limits for the definition of a tool. Those for examples are from the reference's
// tool documentation.
const (
	maxDescription   = 64 << 10
	maxNotes         = 2000
	maxExamples      = 10
	maxExampleText   = 300
	maxResultHint    = 200
	maxExampleDepth  = 5
	maxExampleKeys   = 50
	maxTags          = 20
	maxTagLen        = 64
	maxAliases       = 20
	maxSchemaBytes   = 1 << 20
	maxRegisteredLen = 4 * toolroom.MaxIDPart
)

// checkTool normalizes a tool for registration, or returns an error.
func checkTool(t *toolroom.Tool) error {
	if err := t.ID.Validate(); err != nil {
		return err
	}
	refuse := func(format string, args ...any) error {
		e := toolroom.Errorf(toolroom.CodeInvalidArguments, format, args...)
		e.Tool = t.ID.String()
		return e
	}
	switch {
	case len(t.Description) > maxDescription:
		return refuse("the description of %s has %d bytes; at most %d are allowed", t.ID, len(t.Description), maxDescription)
	case len(t.Notes) > maxNotes:
		return refuse("the notes of %s have %d bytes; at most %d are allowed", t.ID, len(t.Notes), maxNotes)
	case len(t.Examples) > maxExamples:
		return refuse("%s has %d examples; at most %d are allowed", t.ID, len(t.Examples), maxExamples)
	case len(t.Aliases) > maxAliases:
		return refuse("%s has %d aliases; at most %d are allowed", t.ID, len(t.Aliases), maxAliases)
	case len(t.InputSchema) > maxSchemaBytes || len(t.OutputSchema) > maxSchemaBytes:
		return refuse("a schema of %s is larger than %d bytes", t.ID, maxSchemaBytes)
	}
	for _, alias := range t.Aliases {
		if _, err := toolroom.Spellings(alias); err != nil || len(alias) > maxRegisteredLen {
			return refuse("the alias %q of %s is not a valid spelling", alias, t.ID)
		}
	}
	for i, ex := range t.Examples {
		if len(ex.Description) > maxExampleText || len(ex.ResultHint) > maxResultHint {
			return refuse("example %d of %s: a description has at most %d bytes, a result hint %d", i+1, t.ID, maxExampleText, maxResultHint)
		}
		if depth, keys, ok := objectSize(ex.Arguments); !ok || depth > maxExampleDepth || keys > maxExampleKeys {
			return refuse("example %d of %s: its arguments must be a JSON object with at most %d levels and %d keys", i+1, t.ID, maxExampleDepth, maxExampleKeys)
		}
	}
	t.Tags = cleanTags(t.Tags)
	return nil
}

// checkReserved refuses a tool in a reserved namespace, and an alias that looks like
// one.
func checkReserved(t *toolroom.Tool, reserved func(string) error) error {
	if err := reserved(t.ID.Namespace); err != nil {
		return err
	}
	for _, alias := range t.Aliases {
		id, err := toolroom.ParseID(alias)
		if err == nil {
			err = reserved(id.Namespace)
		} else {
			err = nil // it has no namespace
		}
		if err != nil {
			return toolroom.Errorf(toolroom.CodeConflict, "the alias %q of %s: %w", alias, t.ID, err)
		}
	}
	return nil
}

// cleanTags converts tags to lower case with dashes and removes duplicates.
func cleanTags(tags []string) []string {
	var out []string
	for _, tag := range tags {
		tag = strings.Join(strings.Fields(strings.ToLower(tag)), "-")
		if tag == "" || len(tag) > maxTagLen || slices.Contains(out, tag) {
			continue
		}
		if out = append(out, tag); len(out) == maxTags {
			break
		}
	}
	return out
}

// objectSize returns the nesting depth and the number of keys of a JSON object. ok is
// false for any other document.
func objectSize(raw json.RawMessage) (depth, keys int, ok bool) {
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil || tree == nil {
		return 0, 0, false
	}
	var walk func(v any, level int)
	walk = func(v any, level int) {
		switch v := v.(type) {
		case map[string]any:
			depth = max(depth, level)
			keys += len(v)
			for _, child := range v {
				walk(child, level+1)
			}
		case []any:
			depth = max(depth, level)
			for _, child := range v {
				walk(child, level+1)
			}
		}
	}
	walk(tree, 1)
	return depth, keys, true
}

// sameDefinition reports whether a and b look the same to clients.
func sameDefinition(a, b *toolroom.Tool) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y) && bytes.Equal(a.Raw, b.Raw)
}
