// Package problem writes errors as HTTP answers: application/problem+json
// (RFC 9457) with the members of [toolroom.Error]. [Write] comes first.
package problem

import (
	"errors"
	"math"
	"net"
	"net/http"
	"strconv"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is the body of an answer that is an error.
type Problem struct {
	// Title and Status are what RFC 9457 defines and every client knows; the
	// members of the error stand beside them.
	Title  string `json:"title"`
	Status int    `json:"status"`

	Code      toolroom.Code  `json:"code"`
	Phase     toolroom.Phase `json:"phase,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Message   string         `json:"message"`
	Retryable bool           `json:"retryable"`
	Hint      string         `json:"hint,omitempty"`
	Details   map[string]any `json:"details,omitempty"`
}

// From is err as a problem, with the status of its code. A body over its limit
// is 413 and one that comes too slowly 408.
func From(err error) *Problem {
	if p := (*Problem)(nil); errors.As(err, &p) {
		return p
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return New(http.StatusRequestEntityTooLarge,
			toolroom.Errorf(toolroom.CodeResourceLimit, "the request body is larger than %d bytes", tooLarge.Limit).
				WithHint("send less in one request"))
	}
	if e := (*toolroom.Error)(nil); errors.As(err, &e) {
		return New(e.Code.Info().HTTPStatus, e)
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		return New(http.StatusRequestTimeout, toolroom.Errorf(toolroom.CodeTimeout, "the request body came too slowly"))
	}
	e := toolroom.AsError(err)
	return New(e.Code.Info().HTTPStatus, e)
}

// New is an error under a status of its own, for what HTTP tells apart and the
// table of codes does not.
func New(status int, e *toolroom.Error) *Problem {
	title := http.StatusText(status)
	if title == "" { // 499 has no text of its own
		title = string(e.Code)
	}
	return &Problem{
		Title: title, Status: status,
		Code: e.Code, Phase: e.Phase, Tool: e.Tool, Message: e.Message,
		Retryable: e.Retryable, Hint: e.Hint, Details: e.Details,
	}
}

// Write answers with err.
func Write(w http.ResponseWriter, err error) {
	p := From(err)
	body, err := jsonx.Marshal(p)
	if err != nil { // only Details can hold what JSON cannot say
		p.Details = nil
		body, _ = jsonx.Marshal(p)
	}
	if after := RetryAfter(p.Details); after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	w.Write(body)
}

// RetryAfter is the value of the header of that name for an error's details,
// empty where they do not say how long to wait.
func RetryAfter(details map[string]any) string {
	seconds, ok := details["retry_after_seconds"].(float64)
	if !ok || seconds < 0 || seconds > math.MaxInt32 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(seconds)))
}

// Error, GetStatus, GetHeaders and ContentType make a Problem an error that the
// OpenAPI framework answers with as it is.

// Error is the message.
func (p *Problem) Error() string { return p.Message }

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders are the headers beside the body.
func (p *Problem) GetHeaders() http.Header {
	if after := RetryAfter(p.Details); after != "" {
		return http.Header{"Retry-After": {after}}
	}
	return nil
}

// ContentType is the media type of the body.
func (p *Problem) ContentType(string) string { return ContentType }
