package service

import (
	"slices"
	"strings"

	"github.com/toolroom/toolroom/bridge"
)

// offer are the tools of a program as the start frame has them. A program pays
// for those that it touches.
type offer []bridge.Value

// names are the friendly names that are global variables, of those that a text
// has in it.
func (o offer) names(text string) []bridge.Value {
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

// roots are the global variables below which every tool of a kind is.
var roots = []string{"tools", "mcp", "cli"}

// below is what a path leads to that is no tool, and has tools below it.
var below = []byte("true")

// find gives the JSON of the tool that a path leads to, true where tools are
// below it, or nothing.
func (o offer) find(path string) []byte {
	var found []byte
	for _, item := range o {
		tool, _ := item.(bridge.Map)
		own, _ := tool.Get("path").([]bridge.Value)
		globals, _ := tool.Get("globals").([]bridge.Value)
		rest, inTools := strings.CutPrefix(path, "tools.")
		var whole bool
		part := inTools && begins(own, rest, &whole)
		for _, item := range globals {
			steps, _ := item.([]bridge.Value)
			part = begins(steps, path, &whole) || part
		}
		if whole {
			text, err := bridge.ToJSON(needed(tool))
			if err != nil {
				continue // of texts and booleans, which it can always write
			}
			return text
		}
		if part {
			found = below
		}
	}
	return found
}

// needed is what the prelude reads of a tool that it has found: reading takes it
// some microseconds for every hundred bytes.
func needed(tool bridge.Map) bridge.Map {
	return slices.DeleteFunc(slices.Clone(tool), func(m bridge.Member) bool { return m.Key == "doc" || m.Key == "globals" })
}

// begins tells whether steps, joined by points, begin with a path; whole is set
// where they are that path.
func begins(steps []bridge.Value, path string, whole *bool) bool {
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
