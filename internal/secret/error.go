package secret

import (
	"encoding/json"
	"errors"

	"github.com/toolroom/toolroom"
)

// Error is a copy of e without known values, or e itself when nothing is known.
func (m *Masker) Error(e *toolroom.Error) *toolroom.Error {
	if e == nil || m.matcher() == nil {
		return e
	}
	masked := *e
	masked.Message, masked.Hint = m.Text(e.Message), m.Text(e.Hint)
	if e.Cause != nil {
		if said := e.Cause.Error(); m.Text(said) != said {
			masked.Cause = errors.New(m.Text(said))
		}
	}
	if len(e.Details) > 0 {
		masked.Details = m.details(e.Details)
	}
	return &masked
}

func (m *Masker) details(details map[string]any) map[string]any {
	text, err := json.Marshal(details)
	if err != nil {
		return nil // what cannot be looked through does not leave
	}
	masked := m.Mask(text)
	if string(masked) == string(text) {
		return details
	}
	var out map[string]any
	if json.Unmarshal(masked, &out) != nil {
		return nil
	}
	return out
}
