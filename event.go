package toolroom

import (
	"encoding/json"
	"time"
)

// EventKind says what happened in a call.
type EventKind string

// The kinds of event. Every call begins with called and ends with exactly one
// done or error, which is never dropped.
const (
	EventCalled   EventKind = "called"
	EventProgress EventKind = "progress"
	EventChunk    EventKind = "chunk"
	EventLog      EventKind = "log"
	EventNotice   EventKind = "notice"
	EventApproval EventKind = "approval"
	EventDone     EventKind = "done"
	EventError    EventKind = "error"
)

// Event is something that happened in a call. Only the fields of its kind are
// set.
type Event struct {
	Kind EventKind `json:"kind"`
	// Call is the id of the call, and Parent that of the call which made it,
	// empty for none.
	Call   string `json:"call"`
	Parent string `json:"parent,omitempty"`
	// Tool is the canonical id.
	Tool string    `json:"tool"`
	Time time.Time `json:"time"`
	// Identity is who made the call, for surfaces that show callers only their
	// own; it is not part of the event's wire form.
	Identity Identity `json:"-"`

	Progress *Progress `json:"progress,omitempty"`
	// Chunk is a piece of what the tool gives while it runs, as JSON.
	Chunk    json.RawMessage `json:"chunk,omitempty"`
	Log      *Log            `json:"log,omitempty"`
	Notice   *Notice         `json:"notice,omitempty"`
	Approval *ApprovalNotice `json:"approval,omitempty"`
	// Result is set by done and by error.
	Result *Result `json:"result,omitempty"`
}

// Final reports whether e ends its call.
func (e *Event) Final() bool { return e.Kind == EventDone || e.Kind == EventError }

// Progress says how far a call has come.
type Progress struct {
	// Done is what is done of Total, in a unit of the tool's own. A Total of
	// zero is not known.
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`

	// Raw is the progress as its source sent it (for MCP the parameters of
	// notifications/progress), where the protocol can be relayed.
	Raw json.RawMessage `json:"-"`
}

// Log is a line that a tool wrote. Level is debug, info, warning or error.
type Log struct {
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	// Raw is the line as its source sent it (for MCP the parameters of
	// notifications/message), where the protocol can be relayed.
	Raw json.RawMessage `json:"-"`
}

// Notice is what a source told in the words of its own protocol, which mean nothing
// here: for MCP a notification with a method that the protocol does not know.
type Notice struct {
	Method string `json:"method"`
	// Params are as the source sent them, nil for none.
	Params json.RawMessage `json:"params,omitempty"`
}

// ApprovalNotice tells that a call waits for a person, or no longer does.
type ApprovalNotice struct {
	// ID is that of the question, by which it is answered.
	ID string `json:"id"`
	// State is pending, approved, declined, expired or cancelled.
	State string `json:"state"`
	// Reason is why a person is asked.
	Reason string `json:"reason,omitempty"`
	// Expires is when the question ends unanswered; zero for never.
	Expires time.Time `json:"expires,omitzero"`
}
