package run

import (
	"slices"

	"github.com/toolroom/toolroom"
)

// checkScopes refuses a caller whose token does not reach as far as the tool.
func (p *pass) checkScopes() error {
	have := p.call.Identity.Scopes
	if p.Scopes == nil || have == nil {
		return nil
	}
	for _, scope := range p.Scopes(&p.entry.Tool) {
		if !slices.Contains(have, scope) {
			e := toolroom.Errorf(toolroom.CodeDenied, "the token of %s lacks the scope %s, which %s needs", p.call.Identity, scope, p.tool)
			e.Details = map[string]any{"scope": scope}
			return e.WithHint("log in again and ask for the scope %s", scope)
		}
	}
	return nil
}
