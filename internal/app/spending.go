package app

import (
	"github.com/toolroom/toolroom/internal/policy"
)

// spending enforces the section policy.spending of the current config.
func (a *App) spending() *policy.SpendingBook {
	return &policy.SpendingBook{Store: a.store, Rules: func() []policy.SpendingRule {
		return a.Config().Policy.SpendingRules(func(tool, pattern string) bool {
			return a.selects(a.toolNamed(tool))(pattern)
		})
	}}
}
