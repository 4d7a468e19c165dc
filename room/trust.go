package room

import (
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
)

// trustRules is what the config says of labels and of sending outside.
type trustRules struct {
	effect policy.Effect
	inside []policy.Pattern
	labels map[string]sourceLabels // by namespace
}

type sourceLabels struct {
	all   []string
	globs []toolLabels
	// scopes are those of the secrets that the source refers to.
	scopes []string
}

type toolLabels struct {
	glob   string
	labels []string
}

func newTrustRules(c *config.Config) (*trustRules, error) {
	t := &trustRules{labels: map[string]sourceLabels{}}
	switch c.Policy.Taint {
	case config.TaintConfirm:
		t.effect = policy.Confirm
	case config.TaintDeny:
		t.effect = policy.Deny
	}
	var err error
	if t.inside, err = policy.ParsePatterns(c.Policy.Inside); err != nil {
		return nil, err
	}
	for name, s := range c.Sources {
		labels := sourceLabels{all: s.Labels, scopes: s.Scopes()}
		for _, glob := range slices.Sorted(maps.Keys(s.ToolLabels)) {
			labels.globs = append(labels.globs, toolLabels{glob, s.ToolLabels[glob]})
		}
		t.labels[name] = labels
	}
	return t, nil
}

// of says how far a tool is trusted.
func (t *trustRules) of(tool *toolroom.Tool) run.Trust {
	source := t.labels[tool.ID.Namespace]
	trust := run.Trust{
		Labels: source.all, Secrets: source.scopes, Effect: t.effect,
		Inside: policy.AnyMatches(t.inside, tool), Sends: sends(tool),
	}
	for _, g := range source.globs {
		if policy.MatchAny([]string{g.glob}, tool.ID.Name) {
			trust.Labels = append(slices.Clone(trust.Labels), g.labels...)
		}
	}
	return trust
}

// sends reports whether a call can send something outside, by what is known of
// the tool alone. Reading counts: what is asked for can hold what was read before.
// A hint that a tool stays inside is believed where it is this program's or the
// operator's own; a server would say so to be let out.
func sends(tool *toolroom.Tool) bool {
	switch tool.Source {
	case toolroom.SourceGo, toolroom.SourceBuiltin, toolroom.SourceHTTP:
		return tool.Hints.IsOpenWorld()
	default:
		return true
	}
}
