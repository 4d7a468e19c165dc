package toolroom

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the outcome of a call.
type Status string

// The outcomes.
const (
	StatusOK        Status = "ok"
	StatusError     Status = "error"
	StatusDenied    Status = "denied"
	StatusCancelled Status = "cancelled"
	StatusTimeout   Status = "timeout"
)

// Effects says what is known of the effects of a call that did not end well:
// whether its work happened.
type Effects string

// What is known of effects.
const (
	EffectsNone    Effects = "none"
	EffectsDone    Effects = "done"
	EffectsUnknown Effects = "unknown"
)

// Result is the outcome envelope of a call. Every surface prints the same one.
type Result struct {
	// Call is the id of the call, and Tool the canonical id of the tool, or what
	// the caller wrote where no tool was found.
	Call   string `json:"call"`
	Tool   string `json:"tool"`
	Status Status `json:"status"`

	// Value is what the tool returned, as JSON text, so that integers of any
	// size and the order of members survive. Scalars and lists stay what they
	// are. Empty means that there is no value; see [Result.Decode].
	Value json.RawMessage `json:"value,omitempty"`
	// Content is the result for people and models.
	Content []Content `json:"content,omitempty"`
	// Artifacts are parts of the result, or the whole of it, that were too large to
	// be shown.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Hidden tells what was cut from Value or Content, and where the whole is.
	Hidden *Hidden `json:"hidden,omitempty"`
	// Labels say what kind of content this is, as the source's config does, for
	// example untrusted or private.
	Labels  []string `json:"labels,omitempty"`
	Effects Effects  `json:"effects"`
	// Execution says how a program ran; nil for other tools.
	Execution *Execution `json:"execution,omitempty"`
	Usage     Usage      `json:"usage"`
	// Error is why Status is not ok; nil when it is.
	Error *Error `json:"error,omitempty"`

	// Raw is the result as its source sent it, byte for byte, when it came
	// whole and unchanged through the pipeline.
	Raw json.RawMessage `json:"-"`
}

// OK reports whether the tool did its work.
func (r *Result) OK() bool { return r.Status == StatusOK }

// Err is the result's error as a Go error, nil when there is none.
func (r *Result) Err() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// Decode puts the value into v, as encoding/json does. It returns the result's
// own error when the call failed.
func (r *Result) Decode(v any) error {
	if r.Error != nil {
		return r.Error
	}
	if len(r.Value) == 0 {
		return nil
	}
	if r.Hidden != nil {
		return fmt.Errorf("the value of %s was cut by %d bytes: read it whole from artifact %s", r.Tool, r.Hidden.Bytes, r.Hidden.Handle)
	}
	if err := json.Unmarshal(r.Value, v); err != nil {
		return fmt.Errorf("decode the value of %s: %w", r.Tool, err)
	}
	return nil
}

// Text is the result as plain text: the text content, or else the value (a
// string without its quotes, anything else as JSON).
func (r *Result) Text() string {
	if text, ok := joinText(r.Content); ok {
		return text
	}
	return valueText(r.Value)
}

// Hidden tells what a result leaves out.
type Hidden struct {
	// Bytes is exactly how many bytes of the whole are not shown.
	Bytes int64 `json:"bytes"`
	// Handle names the artifact that holds the whole.
	Handle string `json:"handle"`
}

// Artifact refers to bytes kept outside the context under a handle.
type Artifact struct {
	// Handle is what the bytes are read by.
	Handle string `json:"handle"`
	// Name is a file name for people.
	Name     string `json:"name,omitempty"`
	MIMEType string `json:"mime_type,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Expires is when the bytes are removed; zero when they stay.
	Expires time.Time `json:"expires,omitzero"`
}

// Usage is what a call took.
type Usage struct {
	// Queue is the time before the tool started, without waiting for a person.
	Queue time.Duration `json:"queue_ns"`
	// Wait is the time spent waiting for a person.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Run is the time that the tool ran.
	Run time.Duration `json:"run_ns"`
	// CPU and PeakMemory, in bytes, are of the sandbox or process, where known.
	CPU        time.Duration `json:"cpu_ns,omitempty"`
	PeakMemory int64         `json:"peak_memory_bytes,omitempty"`
	// BytesIn is the size of the arguments, and BytesOut that of the result.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// Calls counts the child calls; Attempts the tries of this one.
	Calls    int `json:"calls,omitempty"`
	Attempts int `json:"attempts,omitempty"`
	// Cached says that the tool did not run: an earlier result was given.
	Cached bool `json:"cached,omitempty"`
}
