package secret

import (
	"encoding/json"
	"errors"

	"github.com/toolroom/toolroom"
)

// Error returns a copy of e with known values redacted, or e itself if no values are
// known.
func (m *Redactor) Error(e *toolroom.Error) *toolroom.Error {
	if e == nil || m.matcher() == nil {
		return e
	}
	redacted := *e
	redacted.Message, redacted.Hint, redacted.CLIHint = m.Text(e.Message), m.Text(e.Hint), m.Text(e.CLIHint)
	if e.Cause != nil {
		if said := e.Cause.Error(); m.Text(said) != said {
			redacted.Cause = errors.New(m.Text(said))
		}
	}
	if len(e.Details) > 0 {
		redacted.Details = m.details(e.Details)
	}
	if e.RPC != nil {
		rpc := *e.RPC
		rpc.Message, rpc.Data, rpc.Sent = m.Text(rpc.Message), m.Redact(rpc.Data), m.Redact(rpc.Sent)
		redacted.RPC = &rpc
	}
	if e.Missing != nil {
		redacted.Missing = m.details(map[string]any{"": e.Missing})[""]
	}
	return &redacted
}

func (m *Redactor) details(details map[string]any) map[string]any {
	text, err := json.Marshal(details)
	if err != nil {
		return nil // drop what cannot be redacted
	}
	redacted := m.Redact(text)
	if string(redacted) == string(text) {
		return details
	}
	var out map[string]any
	if json.Unmarshal(redacted, &out) != nil {
		return nil
	}
	return out
}
