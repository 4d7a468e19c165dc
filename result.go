package toolroom

import (
	"encoding/json"
	"fmt"
	"time"
)

// Status is the outcome of a call.
type Status string

// The statuses.
const (
	StatusOK        Status = "ok"
	StatusError     Status = "error"
	StatusDenied    Status = "denied"
	StatusCancelled Status = "cancelled"
	StatusTimeout   Status = "timeout"
)

// Effects reports whether the effects of a call happened, as far as is known, also if it
// failed.
type Effects string

// The values of Effects.
const (
	EffectsNone    Effects = "none"
	EffectsDone    Effects = "done"
	EffectsUnknown Effects = "unknown"
)

// Result is the outcome of a call. It is the same on every surface.
type Result struct {
	// Call is the call's id. Tool is the tool's canonical id, or what the caller wrote if
	// no tool was found.
	Call   string `json:"call"`
	Tool   string `json:"tool"`
	Status Status `json:"status"`

	// Value is the tool's return value as JSON text, which preserves integers of any size
	// and the order of members. It can be a scalar, a list or an object. Empty means that
	// there is no value; see [Result.Decode].
	Value json.RawMessage `json:"value,omitempty"`
	// Content is the result in a form for people and models.
	Content []Content `json:"content,omitempty"`
	// Artifacts hold the result, or parts of it, that were too large to show.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Hidden describes what was cut from Value or Content, and where the whole is; nil if
	// nothing was.
	Hidden *Hidden `json:"hidden,omitempty"`
	// Labels are the labels of the content that the source's config sets, for example
	// untrusted or private.
	Labels  []string `json:"labels,omitempty"`
	Effects Effects  `json:"effects"`
	// Execution describes how a program ran; nil for other tools.
	Execution *Execution `json:"execution,omitempty"`
	Usage     Usage      `json:"usage"`
	// Replayed reports that the tool did not run for this call: the result is that of an
	// earlier call with the same idempotency key.
	Replayed bool `json:"replayed,omitempty"`
	// Warnings say what is wrong with a result that is usable nevertheless.
	Warnings []Warning `json:"warnings,omitempty"`
	// Error is the reason that Status is not ok; nil if it is.
	Error *Error `json:"error,omitempty"`

	// Raw is the result as its source sent it, byte for byte, if it passed the pipeline
	// whole and unchanged.
	Raw json.RawMessage `json:"-"`
}

// OK reports whether the call succeeded.
func (r *Result) OK() bool { return r.Status == StatusOK }

// Err returns the result's error as a Go error, or nil if there is none.
func (r *Result) Err() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// Decode decodes the value into v with encoding/json. If the call failed, it returns the
// result's error.
func (r *Result) Decode(v any) error {
	if r.Error != nil {
		return r.Error
	}
	if len(r.Value) == 0 {
		return nil
	}
	if r.Hidden != nil && r.Hidden.Handle == "" {
		return fmt.Errorf("the value of %s was truncated by %d bytes, which were not stored", r.Tool, r.Hidden.Bytes)
	}
	if r.Hidden != nil {
		return fmt.Errorf("the value of %s was truncated by %d bytes: read the whole from artifact %s", r.Tool, r.Hidden.Bytes, r.Hidden.Handle)
	}
	if err := json.Unmarshal(r.Value, v); err != nil {
		return fmt.Errorf("decode the value of %s: %w", r.Tool, err)
	}
	return nil
}

// Text returns the result as plain text: the text content, or else the value (a string
// without quotes, anything else as JSON).
func (r *Result) Text() string {
	if text, ok := joinText(r.Content); ok {
		return text
	}
	return valueText(r.Value)
}

// Warning is a fault of a call that did not make it fail.
type Warning struct {
	// Code is what the code of an error would be: invalid_output for a value that does not
	// fit the tool's output schema.
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Hidden describes the omitted part of a result.
type Hidden struct {
	// Bytes is the exact number of bytes that are not shown.
	Bytes int64 `json:"bytes"`
	// Handle names the artifact that holds the whole, or as much of its beginning
	// as could be stored. It is empty if nothing could be stored.
	Handle string `json:"handle"`
}

// Artifact refers to bytes that are stored under a handle, outside a model's context.
type Artifact struct {
	// Handle is the name by which the bytes are read.
	Handle string `json:"handle"`
	// Name is a file name for people.
	Name     string `json:"name,omitempty"`
	MIMEType string `json:"mime_type,omitempty"`
	// Size is in bytes.
	Size int64 `json:"size"`
	// Expires is when the bytes are removed; zero means never.
	Expires time.Time `json:"expires,omitzero"`
}

// Usage reports the resources that a call used.
type Usage struct {
	// Queue is the time before the tool started, not counting waits for a person.
	Queue time.Duration `json:"queue_ns"`
	// Wait is the time spent waiting for a person.
	Wait time.Duration `json:"wait_ns,omitempty"`
	// Run is the time that the tool ran.
	Run time.Duration `json:"run_ns"`
	// CPU and PeakMemory (in bytes) are those of the sandbox or process, if known.
	CPU        time.Duration `json:"cpu_ns,omitempty"`
	PeakMemory int64         `json:"peak_memory_bytes,omitempty"`
	// BytesIn is the size of the arguments and BytesOut the size of the result.
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// Calls counts the child calls, and Attempts the attempts of this call.
	Calls    int `json:"calls,omitempty"`
	Attempts int `json:"attempts,omitempty"`
	// Cached reports that the tool did not run, because an earlier result was returned.
	Cached bool `json:"cached,omitempty"`
}
