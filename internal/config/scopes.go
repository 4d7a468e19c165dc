package config

import (
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom/internal/secret"
)

// Scopes are those of the secrets that a source refers to, in order.
func (s Source) Scopes() []string {
	// It is plain data: encoding cannot fail. References have no character that
	// JSON escapes.
	text, _ := json.Marshal(s)
	var scopes []string
	for _, reference := range secret.References(string(text)) {
		if ref, err := secret.ParseRef(reference); err == nil && ref.Scope != "" {
			scopes = append(scopes, ref.Scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}
