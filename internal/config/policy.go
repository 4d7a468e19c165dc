package config

import "strings"

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
