package room

import (
	"github.com/toolroom/toolroom/internal/spending"
)

// spending holds calls to the section policy.spending of the config in force.
func (r *Room) spending() *spending.Book {
	return &spending.Book{Store: r.store, Rules: func() []spending.Rule {
		return r.Config().Policy.SpendingRules(func(tool, pattern string) bool {
			return r.selects(r.toolNamed(tool))(pattern)
		})
	}}
}
