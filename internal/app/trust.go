package app

import (
	"context"
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/taint"
)

// trustRules are the config's rules about labels and about sending data outside.
type trustRules struct {
	effect toolroom.Verdict
	inside []policy.Pattern
	labels map[string]sourceLabels // by namespace
}

type sourceLabels struct {
	all   []string
	globs []toolLabels
	// scopes are the scopes of the secrets that the source uses.
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
		t.effect = toolroom.VerdictConfirm
	case config.TaintDeny:
		t.effect = toolroom.VerdictDeny
	}
	var err error
	if t.inside, err = c.Tools.ParsePatterns(c.Policy.Inside); err != nil {
		return nil, err
	}
	for _, pack := range []string{"web", "browser", "minio", "k8s", "image", "audio"} {
		t.labels[pack] = sourceLabels{all: []string{taint.Untrusted}}
	}
	for _, pack := range []string{"gmail", "calendar", "docs", "drive", "tasks"} {
		if _, source := c.Sources[pack]; !source && c.Builtin.On("google", false) {
			t.labels[pack] = sourceLabels{all: []string{taint.Untrusted, taint.Private}}
		}
	}
	for _, pack := range []string{"screen", "camera"} {
		t.labels[pack] = sourceLabels{all: []string{taint.Private}}
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

// of returns the trust settings of a tool.
func (t *trustRules) of(tool *toolroom.Tool) run.Trust {
	source := t.labels[tool.ID.Namespace]
	trust := run.Trust{
		Labels: source.all, Secrets: source.scopes, Effect: t.effect,
		Inside: policy.MatchesTool(t.inside, tool), Sends: canSend(tool),
	}
	for _, g := range source.globs {
		if policy.MatchesGlob([]string{g.glob}, tool.ID.Name) {
			trust.Labels = append(slices.Clone(trust.Labels), g.labels...)
		}
	}
	return trust
}

// readArtifact adds the labels of an artifact to the call that reads it, or else to the
// caller's session.
func (a *App) readArtifact(ctx context.Context, owner string, labels []taint.Label) error {
	if run.AddTaint(ctx, labels...) {
		return nil
	}
	return a.runner.TaintSession(ctx, owner, labels)
}

// canSend reports whether a call can send data outside, judging by the tool alone. Reading
// counts, because a request can contain data that was read before. A hint that a tool stays
// inside is trusted only for tools of this program or the operator; a server could claim it
// to evade the rule.
func canSend(tool *toolroom.Tool) bool {
	switch tool.Source {
	case toolroom.SourceGo, toolroom.SourceBuiltin, toolroom.SourceHTTP:
		return tool.Hints.IsOpenWorld()
	default:
		return true
	}
}
