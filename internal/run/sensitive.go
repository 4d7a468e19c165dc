package run

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/jsonx"
)

const sensitiveValue = "[sensitive]"

// withoutSensitive encodes a document with the values at the JSON pointers replaced. In a
// pointer, - means every element of a list.
func withoutSensitive(doc any, pointers []string) json.RawMessage {
	for _, pointer := range pointers {
		var path []string // the empty pointer is the whole document
		if pointer != "" {
			path = strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		}
		doc = replaceAt(doc, path)
	}
	out, err := jsonx.Marshal(doc)
	if err != nil {
		return nil
	}
	return out
}

var pointerEscapes = strings.NewReplacer("~1", "/", "~0", "~")

// replaceAt returns doc with the value at path replaced. It copies what it changes.
func replaceAt(doc any, path []string) any {
	if len(path) == 0 {
		return sensitiveValue
	}
	key := pointerEscapes.Replace(path[0])
	switch doc := doc.(type) {
	case map[string]any:
		child, ok := doc[key]
		if !ok {
			return doc
		}
		copied := make(map[string]any, len(doc))
		maps.Copy(copied, doc)
		copied[key] = replaceAt(child, path[1:])
		return copied
	case []any:
		copied := append([]any(nil), doc...)
		for i := range copied {
			if key == "-" || key == strconv.Itoa(i) {
				copied[i] = replaceAt(copied[i], path[1:])
			}
		}
		return copied
	default:
		return doc
	}
}
