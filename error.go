package toolroom

import (
	"context"
	"errors"
	"fmt"
)

// Code is the kind of an error. It is the same on every surface.
type Code string

// The codes. [Code.Info] returns what each means to HTTP, MCP, the command line and code
// mode.
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

// Phase is the pipeline stage in which an error occurred.
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

// Error is a failure that a program or a model can act on: what failed, where, whether a
// retry can help, and what to do next.
type Error struct {
	// Code distinguishes errors for programs.
	Code Code `json:"code"`
	// Phase is the stage at which the call ended; empty outside a call.
	Phase Phase `json:"phase,omitempty"`
	// Tool is the tool's canonical id, if known.
	Tool string `json:"tool,omitempty"`
	// Message describes the failure for people and models.
	Message string `json:"message"`
	// Retryable reports whether the same call may succeed later.
	Retryable bool `json:"retryable"`
	// Hint is the next step for any caller; empty if there is none.
	Hint string `json:"hint,omitempty"`
	// CLIHint is the next step for a person at the command line, with commands to type.
	// Results for MCP clients, programs and the HTTP API omit it, because their callers
	// cannot type commands.
	CLIHint string `json:"-"`
	// Details are further facts for people and models. Their names depend on the code.
	// Toolroom itself does not use them; it uses Facts.
	Details map[string]any `json:"details,omitempty"`
	// Facts are the details that Toolroom's own code uses. In JSON they are members of
	// details.
	Facts `json:"-"`

	// Cause is the underlying error, for errors.Is and errors.As. It never leaves the
	// process, so Message must contain all that a caller may know.
	Cause error `json:"-"`
}

// Errorf returns an Error with a formatted message. A %w operand becomes its cause.
// Retryable is the default of the code.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Retryable: code.Info().Retryable, Cause: errors.Unwrap(err)}
}

// WithHint returns a copy of e with a hint on what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithCLIHint returns a copy of e with a hint that only the command line shows.
func (e *Error) WithCLIHint(format string, args ...any) *Error {
	c := *e
	c.CLIHint = fmt.Sprintf(format, args...)
	return &c
}

// Hints returns Hint and CLIHint, one a line, as the command line shows them.
func (e *Error) Hints() string {
	if e.Hint == "" || e.CLIHint == "" {
		return e.Hint + e.CLIHint
	}
	return e.Hint + "\n" + e.CLIHint
}

// Error returns the message alone; surfaces print hint and code in their own form.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is makes errors.Is(err, &Error{Code: c}) true for every Error with code c.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.Message == "" || t == e)
}

// CodeOf returns the code of err: the code of an [*Error], cancelled or timeout for a
// context error, internal for any other error, and "" for nil.
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

// AsError converts err to an [*Error]. It returns an [*Error] unchanged, and wraps any
// other error with the code of [CodeOf]. It returns nil for nil.
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
