package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/yamldate"
)

// MaxCaseFile is the largest file of cases, in bytes.
const MaxCaseFile = 1 << 20

// Case is a call and the decision that is expected.
type Case struct {
	Name string `yaml:"name" json:"name,omitempty"`
	// Tool is the tool's name in any accepted spelling. Source, Tags and Hints describe a tool
	// that is not in the catalog, and override the properties of one that is.
	Tool   string              `yaml:"tool" json:"tool"`
	Source toolroom.SourceKind `yaml:"source" json:"source,omitempty"`
	Tags   []string            `yaml:"tags" json:"tags,omitempty"`
	Hints  CaseHints           `yaml:"hints" json:"hints,omitzero"`

	Subject  string   `yaml:"subject" json:"subject,omitempty"`
	Teams    []string `yaml:"teams" json:"teams,omitempty"`
	Agent    string   `yaml:"agent" json:"agent,omitempty"`
	Provider string   `yaml:"provider" json:"provider,omitempty"`
	Skill    string   `yaml:"skill" json:"skill,omitempty"`
	// Elevated means that an elevation for the tool is in force.
	Elevated bool `yaml:"elevated" json:"elevated,omitempty"`

	Arguments map[string]any `yaml:"arguments" json:"arguments,omitempty"`
	Surface   string         `yaml:"surface" json:"surface,omitempty"`
	Time      time.Time      `yaml:"time" json:"time,omitzero"`
	Taint     []string       `yaml:"taint" json:"taint,omitempty"`
	// Effects are the predicted effects, in the form that [toolroom.ParseEffect] parses.
	Effects []string `yaml:"effects" json:"effects,omitempty"`
	// Secrets are the scopes of the secrets that the tool would receive.
	Secrets   []string           `yaml:"secrets" json:"secrets,omitempty"`
	Isolation toolroom.Isolation `yaml:"isolation" json:"isolation,omitempty"`

	// Want is allow, confirm or deny.
	Want toolroom.Verdict `yaml:"want" json:"want"`
	// WantRule is a part of the rule that decides. Empty means any rule.
	WantRule string `yaml:"want_rule" json:"want_rule,omitempty"`
	// WantIsolation is the isolation of the decision. Empty means any.
	WantIsolation toolroom.Isolation `yaml:"want_isolation" json:"want_isolation,omitempty"`
}

// CaseHints are the hints of a case's tool.
type CaseHints struct {
	ReadOnly    *bool `yaml:"read_only" json:"read_only,omitempty"`
	Destructive *bool `yaml:"destructive" json:"destructive,omitempty"`
	Idempotent  *bool `yaml:"idempotent" json:"idempotent,omitempty"`
	OpenWorld   *bool `yaml:"open_world" json:"open_world,omitempty"`
}

// CaseOutcome is the outcome of a case.
type CaseOutcome struct {
	Case     Case     `json:"case"`
	OK       bool     `json:"ok"`
	Decision Decision `json:"decision"`
	// Differences are the differences from what is wanted, one per line.
	Differences []string `json:"differences,omitempty"`
}

// ReadCases reads a file of cases: a list under the key "cases".
func ReadCases(path string) ([]Case, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxCaseFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > MaxCaseFile {
		return nil, fmt.Errorf("%s has more than %d bytes", path, MaxCaseFile)
	}
	return parseCases(path, data)
}

// unknownField is the YAML package's text about an unknown key.
var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

func parseCases(name string, data []byte) ([]Case, error) {
	var file struct {
		Cases []Case `yaml:"cases"`
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithKnownFields())
	var tree yaml.Node
	if err == nil {
		err = loader.Load(&tree)
	}
	if err == nil {
		keepArgumentDates(&tree)
		err = tree.Load(&file, yaml.WithKnownFields())
	}
	if err != nil && !errors.Is(err, io.EOF) {
		why := strings.TrimPrefix(err.Error(), "yaml: construct errors:")
		why = unknownField.ReplaceAllString(strings.TrimSpace(why), `unknown key "$1"`)
		return nil, fmt.Errorf("%s is not a list of cases under the key cases, each with tool and want: %s", name, why)
	}
	if len(file.Cases) == 0 {
		return nil, fmt.Errorf("%s has no cases: write them as a list under the key cases", name)
	}
	var problems []error
	for i, c := range file.Cases {
		if err := c.check(); err != nil {
			problems = append(problems, fmt.Errorf("%s: case %d (%s): %w", name, i+1, c.title(), err))
		}
	}
	return file.Cases, errors.Join(problems...)
}

// keepArgumentDates keeps the dates in arguments as texts; the time of a case is no text.
func keepArgumentDates(n *yaml.Node) {
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Value == "arguments" {
			yamldate.Keep(child)
			continue
		}
		keepArgumentDates(child)
	}
}

func (c *Case) check() error {
	switch {
	case c.Tool == "":
		return errors.New("it names no tool")
	case c.Want != toolroom.VerdictAllow && c.Want != toolroom.VerdictConfirm && c.Want != toolroom.VerdictDeny:
		return fmt.Errorf("want is %q, not allow, confirm or deny", c.Want)
	}
	for _, text := range c.Effects {
		if _, err := toolroom.ParseEffect(text); err != nil {
			return fmt.Errorf("effects: %w", err)
		}
	}
	for _, isolation := range []toolroom.Isolation{c.Isolation, c.WantIsolation} {
		if isolation != "" {
			if _, err := ParseIsolation(string(isolation)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Case) title() string {
	if c.Name != "" {
		return c.Name
	}
	return c.Tool
}

// String is the title of the case.
func (c Case) String() string { return c.title() }

// Identity returns the caller of the case.
func (c *Case) Identity() toolroom.Identity {
	return toolroom.Identity{Subject: c.Subject, Agent: c.Agent, Provider: c.Provider, Skill: c.Skill, Groups: c.Teams}
}

// Trial tries a policy without putting it in force.
type Trial struct {
	find            FindTool
	plain, elevated *Policy
	// Enforced returns which rules about effects this machine enforces on the calls of a tool.
	// It is used for replays only: cases of a file must not depend on the machine, so for them
	// no rule is enforced.
	Enforced func(*toolroom.Tool, []toolroom.Effect) func(rule toolroom.Effect) bool
}

// FindTool returns the tool with a name. The tool need not be in the catalog.
type FindTool func(ctx context.Context, spelling string) (*toolroom.Tool, error)

// NewTrial returns a Trial of p.
func NewTrial(p *Policy, find FindTool) *Trial {
	return &Trial{find: find, plain: p.WithElevations(nil), elevated: p.WithElevations(elevateAll{})}
}

func (t *Trial) decide(ctx context.Context, r Request, elevated bool) Decision {
	if elevated {
		return t.elevated.Decide(ctx, r)
	}
	return t.plain.Decide(ctx, r)
}

// Run decides every case.
func (t *Trial) Run(ctx context.Context, cases []Case) ([]CaseOutcome, error) {
	outcomes := make([]CaseOutcome, len(cases))
	for i, c := range cases {
		tool, err := t.find(ctx, c.Tool)
		if err != nil {
			return nil, fmt.Errorf("case %d (%s): %w", i+1, c.title(), err)
		}
		call, err := c.context()
		if err != nil {
			return nil, fmt.Errorf("case %d (%s): %w", i+1, c.title(), err)
		}
		decision := t.decide(ctx, Request{Tool: c.applyTo(tool), Who: c.Identity(), Call: call}, c.Elevated)
		outcomes[i] = CaseOutcome{Case: c, Decision: decision, Differences: c.differences(decision)}
		outcomes[i].OK = len(outcomes[i].Differences) == 0
	}
	return outcomes, nil
}

// applyTo returns a copy of the tool with the properties that the case overrides.
func (c *Case) applyTo(of *toolroom.Tool) *toolroom.Tool {
	t := *of
	if c.Source != "" {
		t.Source = c.Source
	}
	if c.Tags != nil {
		t.Tags = nil
		for _, tag := range c.Tags {
			t.Tags = append(t.Tags, cleanTag(tag))
		}
	}
	for _, hint := range [...]struct{ set, to **bool }{
		{&c.Hints.ReadOnly, &t.Hints.ReadOnly},
		{&c.Hints.Destructive, &t.Hints.Destructive},
		{&c.Hints.Idempotent, &t.Hints.Idempotent},
		{&c.Hints.OpenWorld, &t.Hints.OpenWorld},
	} {
		if *hint.set != nil {
			*hint.to = *hint.set
		}
	}
	return &t
}

func (c *Case) context() (*Context, error) {
	call := &Context{Surface: c.Surface, Time: c.Time, Taint: c.Taint, Secrets: c.Secrets, Isolation: func() toolroom.Isolation { return c.Isolation }}
	for _, text := range c.Effects {
		e, err := toolroom.ParseEffect(text)
		if err != nil {
			return nil, err
		}
		call.Effects = append(call.Effects, e)
	}
	arguments := c.Arguments
	if arguments == nil {
		arguments = map[string]any{}
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, fmt.Errorf("its arguments have no form in JSON: %w", err)
	}
	call.Arguments = func() (any, error) { return jsonx.Decode(text, jsonx.Limits{}) }
	return call, nil
}

func (c *Case) differences(d Decision) []string {
	var out []string
	differ := func(what, want, got string) {
		out = append(out, fmt.Sprintf("%s: want %s, got %s", what, want, got))
	}
	if d.Effect != c.Want {
		differ("outcome", string(c.Want), string(d.Effect))
	}
	if !strings.Contains(d.Rule, c.WantRule) {
		differ("rule", c.WantRule, d.Rule)
	}
	if c.WantIsolation != "" && d.Isolation != c.WantIsolation {
		got := string(d.Isolation)
		if got == "" {
			got = "none"
		}
		differ("isolation", string(c.WantIsolation), got)
	}
	return out
}

// elevateAll is an [ElevationLookup] that grants every elevation.
type elevateAll struct{}

// Elevations returns an elevation for subject.
func (elevateAll) Elevations(_ context.Context, subject string, now time.Time) ([]*Elevation, error) {
	return []*Elevation{{ID: "trial", Subject: subject, By: "the trial", Created: now, Expires: now.Add(time.Hour)}}, nil
}
