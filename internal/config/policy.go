package config

import "strings"

// Policy is the section "policy": rules that are written in Cedar, beside the
// layers of the section "tools", and how far sources are trusted.
type Policy struct {
	// Default is what holds where no rule says otherwise: allow (the default)
	// leaves it to the layers, deny refuses what no rule permits.
	Default string `yaml:"default,omitempty"`
	// Environment is what rules see as context.environment, such as prod.
	Environment string `yaml:"environment,omitempty"`
	// Rules are files, relative to the config, or rules themselves.
	Rules []string `yaml:"rules,omitempty"`
	Trust `yaml:",inline"`
	// Spending bounds what calls spend.
	Spending []Spending `yaml:"spending,omitempty"`
}

// IsRuleFile tells an item of Policy.Rules that names a file from one that is a
// rule: rules have more than one word.
func IsRuleFile(item string) bool { return !strings.ContainsAny(strings.TrimSpace(item), " \n\t(") }

func (c check) rules(p Policy) {
	if p.Default != "" {
		c.oneOf("policy.default", p.Default, "allow", "deny")
	}
}
