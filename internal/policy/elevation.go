package policy

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// SensitiveLayer is the name of the step of sensitive tools.
const SensitiveLayer = "tools.sensitive"

// Elevation permits one identity to call sensitive tools for some time. It lifts no other
// restriction: a tool that a layer denies stays denied.
type Elevation struct {
	ID string `json:"id"`
	// Subject is the [toolroom.Identity.Key] of the elevated identity. If Agent is set, only
	// that agent of the identity may use the elevation.
	Subject string `json:"subject"`
	Agent   string `json:"agent,omitempty"`
	// Tools are patterns; an empty list means every sensitive tool.
	Tools []string `json:"tools"`
	// By names the person who granted it, and Reason says why.
	By      string    `json:"by"`
	Reason  string    `json:"reason,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Ended is when it was revoked. It is zero if it was not revoked.
	Ended time.Time `json:"ended,omitzero"`
}

// The default and the longest duration of an elevation.
const (
	DefaultElevation = 15 * time.Minute
	MaxElevation     = 24 * time.Hour
)

// NewElevation validates e and returns it with its ID and times. lasts is its duration: zero
// means DefaultElevation, and more than MaxElevation is an error. Its tools may name the groups
// of c.
func NewElevation(c Config, e Elevation, lasts time.Duration, now time.Time) (*Elevation, error) {
	if lasts == 0 {
		lasts = DefaultElevation
	}
	if lasts < 0 || lasts > MaxElevation {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "an elevation cannot last %s", lasts).
			WithHint("the most is %s", MaxElevation)
	}
	if e.Subject == "" || e.By == "" {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "an elevation needs a subject and the name of the person who grants it")
	}
	if _, err := c.ParsePatterns(e.Tools); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%w", err)
	}
	e.ID = "elv_" + strings.ToLower(rand.Text()[:12])
	e.Created, e.Expires, e.Ended = now, now.Add(lasts), time.Time{}
	return &e, nil
}

// Active reports whether e is in force at now.
func (e *Elevation) Active(now time.Time) bool { return e.Ended.IsZero() && now.Before(e.Expires) }

// covers reports whether e lets who call t. groups resolves the groups that e names.
func (e *Elevation) covers(t *toolroom.Tool, who toolroom.Identity, groups map[string][]string) bool {
	if e.Subject != who.Key() || e.Agent != "" && e.Agent != who.Agent {
		return false
	}
	patterns, err := parsePatterns(e.Tools, groups)
	return err == nil && (len(patterns) == 0 || MatchesTool(patterns, t))
}

// ElevationLookup looks up elevations. It is used for every call of a sensitive tool, and must
// be safe for concurrent use.
type ElevationLookup interface {
	// Elevations returns the elevations in force at now, oldest first, of one
	// subject or, if subject is empty, of all.
	Elevations(ctx context.Context, subject string, now time.Time) ([]*Elevation, error)
}

type sensitive struct {
	tools   rules
	confirm bool
	groups  map[string][]string // that elevations may name
}

func (p *parser) parseSensitive(s Sensitive) sensitive {
	known := map[string]bool{DenyWithoutElevation: true, ConfirmWithoutElevation: true}
	if s.Mode != "" && !known[s.Mode] {
		p.addProblem(SensitiveLayer+".mode", "there is no mode %q%s", s.Mode, didYouMean(s.Mode, known))
	}
	return sensitive{tools: p.parseRules(SensitiveLayer+".tools", s.Tools), confirm: s.Mode == ConfirmWithoutElevation, groups: p.groups}
}

// judge returns the step for a sensitive tool. text is the rule that makes it sensitive.
func (s sensitive) judge(ctx context.Context, held ElevationLookup, r Request, text string, now time.Time) toolroom.PolicyStep {
	step := toolroom.PolicyStep{Layer: SensitiveLayer, Effect: toolroom.VerdictDeny, Rule: text + ", and no elevation is in force"}
	if s.confirm {
		step.Effect = toolroom.VerdictConfirm
	}
	step.Hint = "an operator can grant one for some time"
	step.CLIHint = fmt.Sprintf("toolroom policy elevate %s --tool %s", r.Who.Key(), r.Tool.ID.Unversioned())
	if held == nil {
		return step
	}
	list, err := held.Elevations(ctx, r.Who.Key(), now)
	if err != nil {
		step.Rule = text + ", and elevations could not be read: " + err.Error()
		return step
	}
	for _, e := range list {
		if e.Active(now) && e.covers(r.Tool, r.Who, s.groups) {
			return toolroom.PolicyStep{Layer: SensitiveLayer, Effect: toolroom.VerdictAllow, Rule: fmt.Sprintf("%s, elevated by %s (%s)", text, e.By, e.ID)}
		}
	}
	return step
}
