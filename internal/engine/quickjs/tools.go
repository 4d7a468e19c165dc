package quickjs

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// encodedTools holds the tools of a program as encoded in the start frame. A program pays
// only for the tools that it touches.
type encodedTools []bridge.Value

// usedGlobals returns the tool names that the program mentions as global variables.
func (o encodedTools) usedGlobals(text string) []bridge.Value {
	var names []bridge.Value
	for _, item := range o {
		tool, _ := item.(bridge.Map)
		paths, _ := tool.Get("globals").([]bridge.Value)
		for _, item := range paths {
			path, _ := item.([]bridge.Value)
			if len(path) == 0 {
				continue
			}
			name, _ := path[0].(string)
			if slices.Contains(roots, name) || slices.Contains(names, bridge.Value(name)) || !strings.Contains(text, name) {
				continue
			}
			names = append(names, name)
		}
	}
	return names
}

// roots are the global variables that contain all tools of a kind.
var roots = []string{"tools", "mcp", "cli"}

// subtreeMarker marks a path that is not a tool and has tools below it.
var subtreeMarker = []byte("true")

// find returns the JSON of the tool at a path, true if there are tools below the
// path, or nothing.
func (o encodedTools) find(path string) []byte {
	var found []byte
	for _, item := range o {
		tool, _ := item.(bridge.Map)
		own, _ := tool.Get("path").([]bridge.Value)
		globals, _ := tool.Get("globals").([]bridge.Value)
		rest, inTools := strings.CutPrefix(path, "tools.")
		var whole bool
		part := inTools && hasPathPrefix(own, rest, &whole)
		for _, item := range globals {
			steps, _ := item.([]bridge.Value)
			part = hasPathPrefix(steps, path, &whole) || part
		}
		if whole {
			text, err := bridge.ToJSON(preludeMembers(tool))
			if err != nil {
				continue // texts and booleans can always be encoded
			}
			return text
		}
		if part {
			found = subtreeMarker
		}
	}
	return found
}

// preludeMembers returns the members of a tool that the prelude reads; reading takes some
// microseconds for every hundred bytes.
func preludeMembers(tool bridge.Map) bridge.Map {
	return slices.DeleteFunc(slices.Clone(tool), func(m bridge.Member) bool { return m.Key == "doc" || m.Key == "globals" })
}

// hasPathPrefix reports whether steps, joined by dots, begin with a path; whole reports
// whether they are that path.
func hasPathPrefix(steps []bridge.Value, path string, whole *bool) bool {
	for i, item := range steps {
		step, _ := item.(string)
		if path == step {
			*whole = *whole || i == len(steps)-1
			return true
		}
		rest, ok := strings.CutPrefix(path, step)
		if !ok || rest == "" || rest[0] != '.' {
			return false
		}
		path = rest[1:]
	}
	return false
}
