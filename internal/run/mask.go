package run

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

const maskedValue = "[sensitive]"

// mask writes a decoded document with the values at the JSON pointers masked.
// In a pointer, - stands for every element of a list.
func mask(doc any, pointers []string) json.RawMessage {
	for _, pointer := range pointers {
		doc = maskAt(doc, strings.Split(strings.TrimPrefix(pointer, "/"), "/"))
	}
	out, err := jsonx.Marshal(doc)
	if err != nil {
		return nil
	}
	return out
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// maskAt returns a copy of doc along the path; the caller's tree is untouched.
func maskAt(doc any, path []string) any {
	if len(path) == 0 {
		return maskedValue
	}
	key := pointerEscapes.Replace(path[0])
	switch doc := doc.(type) {
	case map[string]any:
		child, ok := doc[key]
		if !ok {
			return doc
		}
		copied := make(map[string]any, len(doc))
		for k, v := range doc {
			copied[k] = v
		}
		copied[key] = maskAt(child, path[1:])
		return copied
	case []any:
		copied := append([]any(nil), doc...)
		for i := range copied {
			if key == "-" || key == strconv.Itoa(i) {
				copied[i] = maskAt(copied[i], path[1:])
			}
		}
		return copied
	default:
		return doc
	}
}
