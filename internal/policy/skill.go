package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// MaxManifest is the largest manifest of a skill, in bytes.
const MaxManifest = 1 << 20

// ReadManifests returns c with the permissions of every skill that has a manifest file. Relative
// paths are relative to dir. A manifest without the member "permissions" permits nothing. If
// verify is not nil, it must accept the content of each file.
func ReadManifests(c Config, dir string, verify func(path string, text []byte) error) (Config, error) {
	skills := maps.Clone(c.Skills)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(skills)) {
		s := skills[name]
		if s.Manifest == "" {
			continue
		}
		if s.Permissions != nil {
			problems = append(problems, fmt.Errorf("tools.skills.%s.permissions: cannot be combined with manifest, which has them", name))
			continue
		}
		path := s.Manifest
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		permissions, err := readManifest(path, verify)
		if err != nil {
			problems = append(problems, fmt.Errorf("tools.skills.%s.manifest: %w", name, err))
			continue
		}
		s.Permissions = permissions
		skills[name] = s
	}
	c.Skills = skills
	return c, errors.Join(problems...)
}

func readManifest(path string, verify func(string, []byte) error) (*Permissions, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxManifest {
		return nil, fmt.Errorf("%s has more than %d bytes", path, MaxManifest)
	}
	if verify != nil {
		if err := verify(path, data); err != nil {
			return nil, err
		}
	}
	var manifest struct {
		Permissions json.RawMessage `json:"permissions"`
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("%s is not a JSON object: %w", path, err)
	}
	if len(manifest.Permissions) == 0 || string(manifest.Permissions) == "null" {
		return nil, nil
	}
	permissions := &Permissions{}
	decoder := json.NewDecoder(bytes.NewReader(manifest.Permissions))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(permissions)
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
		return nil, fmt.Errorf("%s: permissions.%s: %s does not fit there; the form is in docs/policy.md under Skills", path, mistyped.Field, mistyped.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: permissions: %w", path, err)
	}
	return permissions, nil
}

// skill is a compiled manifest.
type skill struct {
	path      string
	none      bool // no permissions: nothing is permitted
	tools     rules
	limits    Permissions
	isolation toolroom.Isolation
}

func (p *parser) parseSkills(skills map[string]Skill) map[string]*skill {
	out := make(map[string]*skill, len(skills))
	for _, name := range slices.Sorted(maps.Keys(skills)) {
		s := &skill{path: "tools.skills." + name}
		out[name] = s
		if skills[name].Permissions == nil {
			s.none = true
			continue
		}
		p.parseSkill(s, *skills[name].Permissions)
	}
	return out
}

func (p *parser) parseSkill(s *skill, permissions Permissions) {
	s.limits = permissions
	if permissions.Tools != nil {
		s.tools = p.parseRules(s.path+".tools", *permissions.Tools)
	} else {
		groups := make([]string, len(permissions.ToolGroups))
		for i, group := range permissions.ToolGroups {
			groups[i] = "group:" + strings.TrimPrefix(group, "group:")
		}
		s.tools = p.parseRules(s.path+".tool_groups", groups)
	}
	p.checkGlobs(s.path+".fs.read", permissions.FS.Read)
	p.checkGlobs(s.path+".fs.write", permissions.FS.Write)
	for i, net := range permissions.Net {
		at := fmt.Sprintf("%s.net[%d].host", s.path, i)
		switch _, notIP := netip.ParseAddr(net.Host); {
		case net.Host == "":
			p.addProblem(at, "missing host")
		case notIP != nil && strings.ContainsAny(net.Host, ":/@[] "):
			p.addProblem(at, "%q is not a host: write its name alone, such as *.example.com, and ports under ports", net.Host)
		}
		for _, port := range net.Ports {
			if port < 1 || port > 65535 {
				p.addProblem(fmt.Sprintf("%s.net[%d].ports", s.path, i), "%d is not a port", port)
			}
		}
	}
	if permissions.ExecutionEnvironment != "" {
		isolation, err := ParseIsolation(permissions.ExecutionEnvironment)
		if err != nil {
			p.addProblem(s.path+".execution_environment", "%w", err)
		}
		s.isolation = isolation
	}
}

// checkGlobs refuses globs of files that match no absolute path.
func (p *parser) checkGlobs(key string, globs []string) {
	for i, glob := range globs {
		if !strings.HasPrefix(glob, "/") && glob != "**" && !strings.HasPrefix(glob, "**/") {
			p.addProblem(fmt.Sprintf("%s[%d]", key, i), "%q: write an absolute path, or **/name for one anywhere", glob)
		}
	}
}

// judge returns the step of the skill's manifest for a tool.
func (s *skill) judge(t *toolroom.Tool) toolroom.PolicyStep {
	step := toolroom.PolicyStep{Layer: s.path, Effect: toolroom.VerdictDeny}
	if s.none {
		step.Rule = s.path + ": a skill without permissions may call nothing"
		return step
	}
	text, ok := s.tools.firstMatch(t)
	if !ok {
		step.Rule = s.path + ": its permissions do not include the tool"
		return step
	}
	step.Effect, step.Rule, step.Isolation = toolroom.VerdictAllow, text, s.isolation
	return step
}

// checkLimits returns the step that denies the call if it exceeds the manifest's limits. exceeded
// is false if all its predicted effects and secrets are within them. Unknown effects are not.
func (s *skill) checkLimits(call *Context) (step toolroom.PolicyStep, exceeded bool) {
	beyond := func(what string, e toolroom.Effect) (toolroom.PolicyStep, bool) {
		step := toolroom.PolicyStep{Layer: s.path, Effect: toolroom.VerdictDeny, Rule: fmt.Sprintf("%s.%s: does not permit this effect of the call", s.path, what), Because: e}
		if e.Mode == "" || e.Target == "" {
			step.Hint = `what the call does is known in part only, so it counts as whatever it may do; if the tool does less, declare its effects in its source, for example effects: {"read_*": ["file.read:{path}"]}`
		}
		return step, true
	}
	for _, e := range call.Effects {
		switch {
		case e.Reads() && !matchesAnyPath(s.limits.FS.Read, e.Target):
			return beyond("fs.read", e)
		case e.Writes() && !matchesAnyPath(s.limits.FS.Write, e.Target):
			return beyond("fs.write", e)
		case e.Kind == toolroom.EffectHost && !matchesAnyHost(s.limits.Net, e.Target):
			return beyond("net", e)
		}
	}
	for _, scope := range call.Secrets {
		if !MatchesGlob(s.limits.Secrets.Scopes, scope) {
			return toolroom.PolicyStep{Layer: s.path, Effect: toolroom.VerdictDeny, Rule: fmt.Sprintf("%s.secrets.scopes: does not include %s", s.path, scope)}, true
		}
	}
	return toolroom.PolicyStep{}, false
}

// matchesAnyPath reports whether path matches one of the globs. A path that contains .. matches
// none, because it was not resolved.
func matchesAnyPath(globs []string, path string) bool {
	segments := strings.Split(path, "/")
	return path != "" && !slices.Contains(segments, "..") && slices.ContainsFunc(globs, func(glob string) bool {
		return matchSegments(strings.Split(glob, "/"), segments)
	})
}

// matchSegments matches path against glob segment by segment. The segment ** stands for any
// number of segments. The time is proportional to the product of the lengths.
func matchSegments(glob, path []string) bool {
	// reach[j] reports whether the part of glob read so far matches the first j segments.
	reach := make([]bool, len(path)+1)
	reach[0] = true
	for _, g := range glob {
		next := make([]bool, len(path)+1)
		for j := range reach {
			switch {
			case g == "**":
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = reach[j-1] && matchGlob(g, path[j-1])
			}
		}
		reach = next
	}
	return reach[len(path)]
}

func matchesAnyHost(permitted []NetPermission, address string) bool {
	host, port, ok := splitHostPort(strings.ToLower(address))
	return ok && slices.ContainsFunc(permitted, func(p NetPermission) bool {
		return matchGlob(strings.ToLower(p.Host), host) && (len(p.Ports) == 0 || slices.Contains(p.Ports, port))
	})
}
