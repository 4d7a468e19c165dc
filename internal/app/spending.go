package app

import (
	"github.com/toolroom/toolroom/internal/spending"
)

// spending enforces the section policy.spending of the current config.
func (r *App) spending() *spending.Book {
	return &spending.Book{Store: r.store, Rules: func() []spending.Rule {
		return r.Config().Policy.SpendingRules(func(tool, pattern string) bool {
			return r.selects(r.toolNamed(tool))(pattern)
		})
	}}
}
