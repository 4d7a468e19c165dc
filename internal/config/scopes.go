package config

import (
	"encoding/json"
	"slices"

	"github.com/toolroom/toolroom/internal/secret"
)

// Scopes returns the scopes of the secrets that a source refers to, sorted.
func (s Source) Scopes() []string {
	// It is plain data, so encoding cannot fail. References contain no character that JSON
	// escapes.
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
