// Package problem writes errors as HTTP responses: application/problem+json
// (RFC 9457) with the members of [toolroom.Error]. Start at [Write].
package problem

import (
	"context"
	"errors"
	"math"
	"net/http"
	"os"
	"strconv"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is the body of an error response.
type Problem struct {
	// Type, Title, Status, Detail and Instance are members that RFC 9457 defines and every
	// client knows. The other members are those of the error.
	Type   string `json:"type" doc:"the page about the code"`
	Title  string `json:"title" doc:"the HTTP status in words"`
	Status int    `json:"status" doc:"the HTTP status"`
	Detail string `json:"detail" doc:"the same as message"`
	// Instance names the request in the server's log.
	Instance string `json:"instance,omitempty" doc:"the request, as in the header X-Request-Id and the log"`

	Code      toolroom.Code  `json:"code"`
	Phase     toolroom.Phase `json:"phase,omitempty"`
	Tool      string         `json:"tool,omitempty"`
	Message   string         `json:"message"`
	Retryable bool           `json:"retryable"`
	Hint      string         `json:"hint,omitempty"`
	Details   map[string]any `json:"details,omitempty"`

	retryAfter string // the header
}

// From converts err to a problem with the status of its code. The status is 413 if the
// request body is too large, and 408 if it arrives too slowly.
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
	// Only the request's body is read with a deadline of the connection. That a context has
	// ended says nothing of the request.
	if errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
		return New(http.StatusRequestTimeout, toolroom.Errorf(toolroom.CodeTimeout, "the request body arrived too slowly"))
	}
	e := toolroom.AsError(err)
	return New(e.Code.Info().HTTPStatus, e)
}

// New converts e to a problem with another status than that of its code, for cases
// that HTTP distinguishes and the error codes do not.
func New(status int, e *toolroom.Error) *Problem {
	title := http.StatusText(status)
	if title == "" { // 499 has no text of its own
		title = string(e.Code)
	}
	return &Problem{
		Type: TypeOf(e.Code), Title: title, Status: status, Detail: e.Message,
		Code: e.Code, Phase: e.Phase, Tool: e.Tool, Message: e.Message,
		Retryable: e.Retryable, Hint: e.Hint, Details: e.AllDetails(), retryAfter: RetryAfter(e),
	}
}

// TypeOf returns the type of the problems with a code: the address of its page.
func TypeOf(code toolroom.Code) string {
	return "https://github.com/toolroom/toolroom/blob/main/docs/errors/" + string(code) + ".md"
}

// Of returns p as the problem of a request.
func (p *Problem) Of(requestID string) *Problem {
	if requestID == "" {
		return p
	}
	named := *p
	named.Instance = "urn:toolroom:" + requestID
	return &named
}

// Write writes err as the response.
func Write(w http.ResponseWriter, err error) {
	p := From(err).Of(w.Header().Get("X-Request-Id"))
	body, err := jsonx.Marshal(p)
	if err != nil { // only Details can hold values that JSON cannot represent
		p.Details = nil
		body, _ = jsonx.Marshal(p)
	}
	if p.retryAfter != "" {
		w.Header().Set("Retry-After", p.retryAfter)
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// So that a client knows that it has all, even if the handler goes on.
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	w.Write(body)
}

// RetryAfter returns the value of the header Retry-After for an error. It is empty if the
// error does not say how long to wait.
func RetryAfter(e *toolroom.Error) string {
	seconds := e.RetryAfter.Seconds()
	if seconds <= 0 || seconds > math.MaxInt32 {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(seconds)))
}

// With Error, GetStatus, GetHeaders and ContentType a Problem is an error that huma
// sends unchanged.

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// GetStatus returns the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the response.
func (p *Problem) GetHeaders() http.Header {
	if p.retryAfter != "" {
		return http.Header{"Retry-After": {p.retryAfter}}
	}
	return nil
}

// ContentType returns the media type of the body.
func (p *Problem) ContentType(string) string { return ContentType }
