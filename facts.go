package toolroom

import (
	"bytes"
	"encoding/json"
	"maps"
	"time"
)

// Facts are the typed details of an [Error], for programs. A zero field is unknown.
type Facts struct {
	// Effects says what the failed call did, if its source knows: EffectsNone means that
	// nothing was sent to the tool.
	Effects Effects
	// Approval is the id of the approval that the call waits for.
	Approval string
	// Run is the id of a call that is suspended and goes on by itself; its result is
	// stored under this id.
	Run string
	// Limit is the name of the limit that was reached.
	Limit string
	// RetryAfter is how long one of Toolroom's own limits refuses a retry. What another
	// server says of that is a detail.
	RetryAfter time.Duration
	// HTTPStatus is the status of the HTTP response that reported the failure.
	HTTPStatus int
	// Missing are the capabilities that a client must declare for the call to work, by
	// name.
	Missing any
	// RPC is the JSON-RPC error that caused this one.
	RPC *RPCError
}

// RPCError is a JSON-RPC error as another server sent it. A surface that speaks JSON-RPC
// forwards it unchanged.
type RPCError struct {
	Code    int64
	Message string
	Data    json.RawMessage
	// Sent is the whole error if it has further members, else nil.
	Sent json.RawMessage
}

// The members of details that are facts.
const (
	factEffects    = "effects"
	factApproval   = "approval"
	factRun        = "run"
	factLimit      = "limit"
	factRetryAfter = "retry_after_seconds"
	factHTTPStatus = "status"
	factMissing    = "requiredCapabilities"
	factRPCCode    = "rpc_code"
	factRPCMessage = "rpc_message"
	factRPCData    = "rpc_data"
	factRPCSent    = "rpc_sent"
)

// AllDetails returns the details and the facts as one map, as JSON has them. The caller
// must not change it.
func (e *Error) AllDetails() map[string]any {
	facts := e.Facts.members()
	if len(facts) == 0 {
		return e.Details
	}
	maps.Copy(facts, e.Details)
	return facts
}

func (f *Facts) members() map[string]any {
	if *f == (Facts{}) {
		return nil
	}
	m := map[string]any{}
	add := func(name string, value any, known bool) {
		if known {
			m[name] = value
		}
	}
	add(factEffects, f.Effects, f.Effects != "")
	add(factApproval, f.Approval, f.Approval != "")
	add(factRun, f.Run, f.Run != "")
	add(factLimit, f.Limit, f.Limit != "")
	add(factRetryAfter, f.RetryAfter.Seconds(), f.RetryAfter != 0)
	add(factHTTPStatus, f.HTTPStatus, f.HTTPStatus != 0)
	add(factMissing, f.Missing, f.Missing != nil)
	if rpc := f.RPC; rpc != nil {
		m[factRPCCode], m[factRPCMessage] = rpc.Code, rpc.Message
		add(factRPCData, rpc.Data, len(rpc.Data) > 0)
		add(factRPCSent, rpc.Sent, len(rpc.Sent) > 0)
	}
	return m
}

// bareError is an Error without methods.
type bareError Error

// MarshalJSON writes the facts as members of details.
func (e Error) MarshalJSON() ([]byte, error) {
	e.Details = e.AllDetails()
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false) // the encoder around decides
	if err := enc.Encode((*bareError)(&e)); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// UnmarshalJSON reads the facts from the members of details that MarshalJSON has written.
func (e *Error) UnmarshalJSON(text []byte) error {
	if err := json.Unmarshal(text, (*bareError)(e)); err != nil {
		return err
	}
	var sent struct {
		Details json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(text, &sent); err != nil || len(sent.Details) == 0 {
		return err
	}
	e.SetDetails(sent.Details)
	return nil
}

// SetDetails sets the details and the facts from an object as AllDetails returns it. A
// member that does not have the type of its fact stays a detail.
func (e *Error) SetDetails(object json.RawMessage) {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return
	}
	e.Details = nil
	_ = json.Unmarshal(object, &e.Details) // the same object
	take := func(name string, into any) bool {
		value, ok := all[name]
		if !ok || string(value) == "null" || json.Unmarshal(value, into) != nil {
			return false
		}
		delete(e.Details, name)
		return true
	}
	f := &e.Facts
	take(factEffects, &f.Effects)
	take(factApproval, &f.Approval)
	take(factRun, &f.Run)
	take(factLimit, &f.Limit)
	if seconds := 0.0; take(factRetryAfter, &seconds) {
		f.RetryAfter = time.Duration(seconds * float64(time.Second))
	}
	take(factHTTPStatus, &f.HTTPStatus)
	take(factMissing, &f.Missing)
	if rpc := (RPCError{}); take(factRPCCode, &rpc.Code) {
		take(factRPCMessage, &rpc.Message)
		take(factRPCData, &rpc.Data)
		take(factRPCSent, &rpc.Sent)
		f.RPC = &rpc
	}
	if len(e.Details) == 0 {
		e.Details = nil
	}
}
