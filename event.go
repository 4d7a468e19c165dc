package toolroom

import (
	"encoding/json"
	"time"
)

// EventKind is the kind of an [Event].
type EventKind string

// The event kinds. Every call begins with called and ends with exactly one done or error,
// which is never dropped.
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

// Event reports progress of a call. Only the fields of its kind are set.
type Event struct {
	Kind EventKind `json:"kind"`
	// Call is the call's id, and Parent is the id of the call that made it; empty if none
	// did.
	Call   string `json:"call"`
	Parent string `json:"parent,omitempty"`
	// Tool is the tool's canonical id.
	Tool string    `json:"tool"`
	Time time.Time `json:"time"`
	// Identity is the caller, for surfaces that show callers only their own events. It is
	// not part of the wire form.
	Identity Identity `json:"-"`

	// Arguments are those of a call that begins, as its receipt records them: without
	// secrets and sensitive values. They are missing if the tool is unknown.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Progress  *Progress       `json:"progress,omitempty"`
	// Chunk is a part of the tool's output while it runs, as JSON.
	Chunk    json.RawMessage `json:"chunk,omitempty"`
	Log      *Log            `json:"log,omitempty"`
	Notice   *Notice         `json:"notice,omitempty"`
	Approval *ApprovalNotice `json:"approval,omitempty"`
	// Result is set for done and error.
	Result *Result `json:"result,omitempty"`
}

// Final reports whether e is the last event of its call.
func (e *Event) Final() bool { return e.Kind == EventDone || e.Kind == EventError }

// Progress reports how far a call has come.
type Progress struct {
	// Done is the completed part of Total, in the tool's own unit. A Total of zero is
	// unknown.
	Done    float64 `json:"done"`
	Total   float64 `json:"total,omitempty"`
	Message string  `json:"message,omitempty"`

	// Raw is the progress as its source sent it (for MCP the parameters of
	// notifications/progress), if the protocol can be relayed.
	Raw json.RawMessage `json:"-"`
}

// Log is a line that a tool logged. Level is debug, info, warning or error.
type Log struct {
	Level   string          `json:"level"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`

	// Raw is the line as its source sent it (for MCP the parameters of
	// notifications/message), if the protocol can be relayed.
	Raw json.RawMessage `json:"-"`
}

// Notice is a notification in a source's own protocol, which Toolroom does not interpret:
// for MCP a notification with a method that the protocol does not define.
type Notice struct {
	Method string `json:"method"`
	// Params are the parameters as the source sent them; nil if it sent none.
	Params json.RawMessage `json:"params,omitempty"`
}

// ApprovalNotice reports that a call waits for a person or has stopped waiting.
type ApprovalNotice struct {
	// ID is the approval's id, by which it is answered.
	ID string `json:"id"`
	// State is pending, approved, declined, expired or cancelled.
	State string `json:"state"`
	// Reason is why the call needs approval.
	Reason string `json:"reason,omitempty"`
	// Expires is when the approval expires unanswered; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}
