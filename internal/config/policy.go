package config

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/policy"
)

// Policy is the section "policy": rules in Cedar, in addition to the layers of the section
// "tools", and settings for trust in sources.
type Policy struct {
	// Default applies if no rule matches: allow (the default) leaves the decision to the
	// layers, deny refuses everything that no rule permits.
	Default string `yaml:"default,omitempty"`
	// Environment is the value of context.environment in rules, such as prod.
	Environment string `yaml:"environment,omitempty"`
	// Rules are paths of files, relative to the config, or the text of rules.
	Rules []string `yaml:"rules,omitempty"`
	Trust `yaml:",inline"`
	// Spending limits the spending of calls.
	Spending []Spending `yaml:"spending,omitempty"`
}

// IsRuleFile reports whether an item of Policy.Rules is a path rather than a rule: rules
// have more than one word.
func IsRuleFile(item string) bool { return !strings.ContainsAny(strings.TrimSpace(item), " \n\t(") }

func (c checker) checkRules(p Policy) {
	c.requireOneOfOrEmpty("policy.default", p.Default, "allow", "deny")
}

// Spending limits what calls of the tools that the pattern Match selects spend in one unit;
// zero means no limit. Every rule that selects a tool applies.
type Spending struct {
	Match string `yaml:"match"`
	Unit  string `yaml:"unit,omitempty"`
	// ConfirmAbove and DenyAbove limit a single call.
	ConfirmAbove float64 `yaml:"confirm_above,omitempty"`
	DenyAbove    float64 `yaml:"deny_above,omitempty"`
	// ConfirmTotal and DenyTotal limit the total in Window (24 h).
	ConfirmTotal float64       `yaml:"confirm_total,omitempty"`
	DenyTotal    float64       `yaml:"deny_total,omitempty"`
	Window       time.Duration `yaml:"window,omitempty"`
	// By sums up the spending of each caller (caller, the default) or of all together
	// (all).
	By string `yaml:"by,omitempty"`
}

// SpendingRules returns the rules in the form in which they are evaluated.
func (p Policy) SpendingRules(selects func(tool, pattern string) bool) []policy.SpendingRule {
	var rules []policy.SpendingRule
	for i, s := range p.Spending {
		unit, _ := effects.ParseAmount("0 " + s.Unit)
		rule := policy.SpendingRule{
			Name:    fmt.Sprintf("policy.spending[%d]", i),
			Selects: func(tool string) bool { return selects(tool, s.Match) },
			Unit:    unit.Unit,
			Window:  s.Window, All: s.By == "all",
			ConfirmAbove: micros(s.ConfirmAbove), DenyAbove: micros(s.DenyAbove),
			ConfirmTotal: micros(s.ConfirmTotal), DenyTotal: micros(s.DenyTotal),
		}
		rule.Window = cmp.Or(rule.Window, 24*time.Hour)
		rules = append(rules, rule)
	}
	return rules
}

func micros(amount float64) int64 { return int64(math.Round(amount * 1e6)) }

func (c checker) checkSpending(list []Spending, groups map[string][]string) {
	for i, s := range list {
		key := fmt.Sprintf("policy.spending[%d]", i)
		c.checkPattern(key+".match", s.Match, groups)
		if _, ok := effects.ParseAmount("0 " + s.Unit); !ok {
			c.addProblem(key+".unit", quote(s.Unit)+" is not a unit: it needs at most 16 letters, digits, _ and -", "for example EUR")
		}
		c.requireOneOfOrEmpty(key+".by", s.By, "caller", "all")
		bounded := false
		for name, amount := range map[string]float64{"confirm_above": s.ConfirmAbove, "deny_above": s.DenyAbove, "confirm_total": s.ConfirmTotal, "deny_total": s.DenyTotal} {
			bounded = bounded || amount != 0
			switch {
			case amount > 1e12:
				c.addProblem(key+"."+name, "it is not an amount from 0 to 10^12", "")
			case amount != 0 && micros(amount) == 0: // it would set no limit
				c.addProblem(key+"."+name, "it is less than a millionth", "")
			}
		}
		if !bounded {
			c.addProblem(key, "it sets no limit", "for example confirm_above: 20")
		}
	}
}
