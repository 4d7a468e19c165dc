package toolroom

import (
	"context"
	"errors"
	"fmt"
)

// Code says what went wrong, the same on every surface.
type Code string

// The codes. What each means to HTTP, MCP, the command line and code mode is
// in one table, [Code.Info].
const (
	CodeInvalidID           Code = "invalid_id"
	CodeToolNotFound        Code = "tool_not_found"
	CodeAmbiguousTool       Code = "ambiguous_tool"
	CodeInvalidArguments    Code = "invalid_arguments"
	CodeInvalidOutput       Code = "invalid_output"
	CodeInvalidCursor       Code = "invalid_cursor"
	CodeDenied              Code = "denied"
	CodeApprovalRequired    Code = "approval_required"
	CodeApprovalDeclined    Code = "approval_declined"
	CodeApprovalExpired     Code = "approval_expired"
	CodeCancelled           Code = "cancelled"
	CodeTimeout             Code = "timeout"
	CodeBudgetExceeded      Code = "budget_exceeded"
	CodeResourceLimit       Code = "resource_limit"
	CodeSandboxUnavailable  Code = "sandbox_unavailable"
	CodeLimitNotEnforceable Code = "limit_not_enforceable"
	CodeExecutionFailed     Code = "execution_failed"
	CodeUpstreamUnavailable Code = "upstream_unavailable"
	CodeUpstreamError       Code = "upstream_error"
	CodeRateLimited         Code = "rate_limited"
	CodeCircuitOpen         Code = "circuit_open"
	CodeConflict            Code = "conflict"
	CodeNotFound            Code = "not_found"
	CodeUnauthenticated     Code = "unauthenticated"
	CodeUnsupported         Code = "unsupported"
	CodeInternal            Code = "internal"
)

// Phase is the step of the pipeline in which an error arose.
type Phase string

// The phases, in the order of the pipeline.
const (
	PhaseResolve        Phase = "resolve"
	PhaseValidateInput  Phase = "validate_input"
	PhasePolicy         Phase = "policy"
	PhaseApproval       Phase = "approval"
	PhaseExecute        Phase = "execute"
	PhaseValidateOutput Phase = "validate_output"
	PhaseShape          Phase = "shape"
	PhaseReceipt        Phase = "receipt"
)

// Error is a failure that a program or a model can act on: what failed, where,
// whether a retry can help, and what to do next.
type Error struct {
	// Code is what programs tell errors apart by.
	Code Code `json:"code"`
	// Phase is where in the pipeline the call ended; empty outside a call.
	Phase Phase `json:"phase,omitempty"`
	// Tool is the canonical id, where one is known.
	Tool string `json:"tool,omitempty"`
	// Message says what failed, for people and models.
	Message string `json:"message"`
	// Retryable is whether the same call may succeed later.
	Retryable bool `json:"retryable"`
	// Hint says what to do next; empty where there is nothing to say.
	Hint string `json:"hint,omitempty"`
	// Details are facts for programs, by names that belong to the code.
	Details map[string]any `json:"details,omitempty"`

	// Cause is what lies behind, for errors.Is and errors.As. It never leaves
	// the process: Message must say what a caller may know.
	Cause error `json:"-"`
}

// Errorf makes an Error; a %w operand becomes its cause. Retryable is what the
// code's table row says.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Retryable: code.Info().Retryable, Cause: errors.Unwrap(err)}
}

// WithHint returns a copy of e that says what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Error is the message alone; surfaces print hint and code as it suits them.
func (e *Error) Error() string { return e.Message }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, &Error{Code: c}) true for every Error with code c.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t == e)
}

// CodeOf is the code behind err: its own for an [*Error], cancelled or timeout
// for a context's error, internal for any other, and "" for nil.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, context.DeadlineExceeded):
		return CodeTimeout
	case errors.Is(err, context.Canceled):
		return CodeCancelled
	default:
		return CodeInternal
	}
}

// AsError is err as an [*Error]: itself when it is one, else one with the code
// of [CodeOf] and err as its cause. It is nil for nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Errorf(CodeOf(err), "%w", err)
}
