package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
)

// MergeTools merges a policy into the section tools of the config at path and leaves the
// other sections unchanged. If the section already has different values, the error has code
// conflict and names the keys; force replaces them. It creates a missing file and writes
// only a valid config. Comments in an existing section are lost.
func MergeTools(path string, add policy.Config, force bool, wrote ...EditHook) error {
	return edit(path, func(data []byte, want *Config) ([]byte, error) {
		m := merger{force: force}
		want.Tools = m.tools(want.Tools, add)
		if len(m.conflicts) > 0 {
			return nil, toolroom.Errorf(toolroom.CodeConflict, "%s has its own %s", path, strings.Join(m.conflicts, ", ")).
				WithHint("replace them: --force")
		}
		text, ok := withTools(data, want.Tools)
		if !ok {
			return nil, unsafe(path)
		}
		return text, nil
	}, nil, wrote)
}

// withTools replaces the section tools of a text.
func withTools(data []byte, tools policy.Config) ([]byte, bool) {
	e, ok := linesOf(data)
	if !ok {
		return nil, false
	}
	section, err := yaml.Dump(map[string]policy.Config{"tools": tools}, yaml.WithIndent(2))
	if err != nil {
		return nil, false
	}
	var document yaml.Node
	_ = yaml.Load(data, &document) // Parse has validated the text, so an error means that it is empty
	start, end := len(e.lines), len(e.lines)
	if len(document.Content) > 0 {
		if document.Content[0].Style&yaml.FlowStyle != 0 {
			return nil, false
		}
		if key, _ := entry(document.Content[0], "tools"); key != nil {
			start, end = e.lineRange(key)
		}
	}
	e.replace(start, end, string(section), 0)
	return e.text(), true
}

// merger merges two policies.
type merger struct {
	force     bool
	conflicts []string
}

func (m *merger) tools(have, add policy.Config) policy.Config {
	have.Rules = m.rules("tools.", have.Rules, add.Rules)
	have.Agents = mergeMap(m, "tools.agents.", have.Agents, add.Agents)
	have.Providers = mergeMap(m, "tools.providers.", have.Providers, add.Providers)
	have.Hooks = merge(m, "tools.hooks", have.Hooks, add.Hooks)
	have.Denylist = merge(m, "tools.immutable_denylist", have.Denylist, add.Denylist)
	have.Sensitive.Tools = merge(m, "tools.sensitive.tools", have.Sensitive.Tools, add.Sensitive.Tools)
	have.Sensitive.Mode = merge(m, "tools.sensitive.mode", have.Sensitive.Mode, add.Sensitive.Mode)
	return have
}

func (m *merger) rules(at string, have, add policy.Rules) policy.Rules {
	have.Profile = merge(m, at+"profile", have.Profile, add.Profile)
	have.Allow = merge(m, at+"allow", have.Allow, add.Allow)
	have.Deny = merge(m, at+"deny", have.Deny, add.Deny)
	have.Autonomy = merge(m, at+"autonomy", have.Autonomy, add.Autonomy)
	return have
}

func mergeMap(m *merger, at string, have, add map[string]policy.Rules) map[string]policy.Rules {
	if len(add) == 0 {
		return have
	}
	out := maps.Clone(have)
	if out == nil {
		out = map[string]policy.Rules{}
	}
	for _, name := range slices.Sorted(maps.Keys(add)) {
		out[name] = m.rules(at+name+".", out[name], add[name])
	}
	return out
}

func merge[T any](m *merger, key string, have, add T) T {
	switch {
	case isEmpty(add):
		return have
	case isEmpty(have), m.force, reflect.DeepEqual(have, add):
		return add
	default:
		m.conflicts = append(m.conflicts, key)
		return have
	}
}

func isEmpty(v any) bool {
	value := reflect.ValueOf(v)
	return value.IsZero() || value.Kind() == reflect.Slice && value.Len() == 0
}
