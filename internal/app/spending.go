package app

import (
	"github.com/toolroom/toolroom/internal/spending"
)

// spending enforces the section policy.spending of the current config.
func (a *App) spending() *spending.Book {
	return &spending.Book{Store: a.store, Rules: func() []spending.Rule {
		return a.Config().Policy.SpendingRules(func(tool, pattern string) bool {
			return a.selects(a.toolNamed(tool))(pattern)
		})
	}}
}
