package clients

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom/internal/policy"
)

// maxFlynn is the maximum size of a Flynn config, in bytes.
const maxFlynn = 1 << 20

// flynnTools is the section "tools" of Flynn's config, according to its documentation
// (docs/api/TOOLS.md), and the members that its executor accepts besides.
type flynnTools struct {
	flynnRules  `yaml:",inline"`
	Agents      map[string]flynnRules `yaml:"agents"`
	Providers   map[string]flynnRules `yaml:"providers"`
	Sensitive   []string              `yaml:"sensitive_tools"`
	Mode        string                `yaml:"sensitive_mode"`
	Denylist    []policy.Denial       `yaml:"immutable_denylist"`
	Hooks       flynnHooks            `yaml:"hooks"`
	Autonomy    policy.Autonomy       `yaml:"autonomy"`
	AutonomyOld policy.Autonomy       `yaml:"autonomy_level"`
}

type flynnRules struct {
	Profile string   `yaml:"profile"`
	Allow   []string `yaml:"allow"`
	Deny    []string `yaml:"deny"`
}

func (r flynnRules) rules() policy.Rules {
	return policy.Rules{Profile: r.Profile, Allow: r.Allow, Deny: r.Deny}
}

// flynnHooks are written either as lists of tools, by the action for their calls, or as one
// list of pairs.
type flynnHooks []policy.Hook

// UnmarshalYAML puts confirm hooks first if there is no order, because here the first
// matching hook applies.
func (h *flynnHooks) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.SequenceNode {
		return node.Decode((*[]policy.Hook)(h))
	}
	var lists map[policy.Action][]string
	if err := node.Decode(&lists); err != nil {
		return err
	}
	for _, action := range []policy.Action{policy.ActionConfirm, policy.ActionLog, policy.ActionSilent} {
		for _, tool := range lists[action] {
			*h = append(*h, policy.Hook{Tool: tool, Action: action})
		}
		delete(lists, action)
	}
	for action := range lists {
		return fmt.Errorf("line %d: unknown hook %q (known: confirm, log, silent)", node.Line, action)
	}
	return nil
}

// FlynnPolicy reads the tool policy of a Flynn config. left lists the keys that are not
// about policy or are unknown.
func FlynnPolicy(path string) (c policy.Config, left []string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFlynn+1))
	if err != nil {
		return c, nil, err
	}
	if len(data) > maxFlynn {
		return c, nil, fmt.Errorf("%s has more than %d bytes", path, maxFlynn)
	}
	c, left, err = flynn(data)
	if err != nil {
		return c, nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, left, nil
}

func flynn(data []byte) (c policy.Config, left []string, err error) {
	var file struct {
		Tools flynnTools `yaml:"tools"`
		Hooks flynnHooks `yaml:"hooks"`
	}
	var keys map[string]any
	var document yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err == nil {
		err = loader.Load(&document)
	}
	if err == nil {
		err = errors.Join(document.Decode(&file), document.Decode(&keys))
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return c, nil, err
	}
	tools, ok := keys["tools"].(map[string]any)
	if !ok {
		return c, nil, errors.New("the section tools is missing")
	}
	left = append(unknown("", keys, "tools", "hooks"), unknown("tools.", tools, "profile", "allow", "deny", "agents", "providers",
		"sensitive_tools", "sensitive_mode", "immutable_denylist", "hooks", "autonomy", "autonomy_level")...)

	t := file.Tools
	c.Rules = t.rules()
	c.Autonomy = t.Autonomy
	if c.Autonomy == "" {
		c.Autonomy = t.AutonomyOld
	}
	c.Agents, c.Providers = allRules(t.Agents), allRules(t.Providers)
	c.Sensitive = policy.Sensitive{Tools: t.Sensitive, Mode: t.Mode}
	c.Denylist = t.Denylist
	c.Hooks = append(t.Hooks, file.Hooks...)
	// The result is checked like a config of ours.
	_, err = policy.Compile(c)
	return c, left, err
}

func allRules(of map[string]flynnRules) map[string]policy.Rules {
	if len(of) == 0 {
		return nil
	}
	out := make(map[string]policy.Rules, len(of))
	for name, r := range of {
		out[name] = r.rules()
	}
	return out
}

func unknown(prefix string, keys map[string]any, known ...string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			out = append(out, prefix+key)
		}
	}
	return out
}
