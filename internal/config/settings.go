package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Setting is one value of a config that is not the default. A list of plain values is one
// Setting.
type Setting struct {
	// Path holds the keys, such as sources, git, cli, command.
	Path  []string
	Value string
}

// Key returns the path as text: sources.git.cli.command.
func (s Setting) Key() string { return strings.Join(s.Path, ".") }

// Settings returns what the config sets, ordered by key.
func (c *Config) Settings() []Setting {
	defaults := map[string]string{}
	for _, s := range collectSettings(Default()) {
		defaults[s.Key()] = s.Value
	}
	return slices.DeleteFunc(collectSettings(c), func(s Setting) bool {
		value, ok := defaults[s.Key()]
		return ok && value == s.Value
	})
}

func collectSettings(c *Config) []Setting {
	text, err := yaml.Dump(c)
	if err != nil {
		return nil
	}
	var tree any
	if err := yaml.Load(text, &tree); err != nil {
		return nil
	}
	var out []Setting
	flatten(tree, nil, &out)
	return out
}

func flatten(tree any, path []string, out *[]Setting) {
	switch tree := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(tree)) {
			flatten(tree[key], append(path[:len(path):len(path)], key), out)
		}
	case []any:
		var words []string
		for _, item := range tree {
			switch item.(type) {
			case map[string]any, []any:
				for i, item := range tree {
					flatten(item, append(path[:len(path):len(path)], fmt.Sprint(i)), out)
				}
				return
			}
			words = append(words, fmt.Sprint(item))
		}
		*out = append(*out, Setting{path, strings.Join(words, ", ")})
	case nil:
	default:
		*out = append(*out, Setting{path, fmt.Sprint(tree)})
	}
}
