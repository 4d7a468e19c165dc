package toolroom

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// exits are the codes of the design, each with the exit code that scripts
// depend on. invalid_cursor came with paging.
var exits = map[Code]int{
	"invalid_id": 5, "tool_not_found": 4, "ambiguous_tool": 4, "invalid_arguments": 5, "invalid_output": 1,
	"invalid_cursor": 5, "denied": 3, "approval_required": 3, "approval_declined": 3, "approval_expired": 3,
	"cancelled": 130, "timeout": 124, "budget_exceeded": 1, "resource_limit": 1, "sandbox_unavailable": 2,
	"limit_not_enforceable": 2, "execution_failed": 1, "upstream_unavailable": 1, "upstream_error": 1,
	"rate_limited": 1, "circuit_open": 1, "conflict": 5, "not_found": 4, "unauthenticated": 3, "unsupported": 2,
	"internal": 2,
}

func TestEveryCodeOfTheDesignIsThereWithItsExitCode(t *testing.T) {
	t.Parallel()
	codes := Codes()
	if len(codes) != len(exits) {
		t.Errorf("%d codes, want %d", len(codes), len(exits))
	}
	for code, exit := range exits {
		if !slices.Contains(codes, code) {
			t.Errorf("%s is not listed", code)
		}
		if got := code.Info().Exit; got != exit {
			t.Errorf("%s exits with %d, want %d", code, got, exit)
		}
	}
}

func TestEveryCodeHasAFullRow(t *testing.T) {
	t.Parallel()
	statuses := map[Code]Status{
		CodeDenied: StatusDenied, CodeApprovalRequired: StatusDenied, CodeApprovalDeclined: StatusDenied,
		CodeApprovalExpired: StatusDenied, CodeUnauthenticated: StatusDenied,
		CodeCancelled: StatusCancelled, CodeTimeout: StatusTimeout,
	}
	for _, code := range Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			row := code.Info()
			if row.HTTPStatus < 400 || row.HTTPStatus > 599 {
				t.Errorf("HTTP status %d", row.HTTPStatus)
			}
			if row.RPC > 0 || row.RPC < 0 && row.RPC > -32000 {
				t.Errorf("JSON-RPC code %d is outside the range of the protocol", row.RPC)
			}
			if !strings.HasSuffix(row.Exception, "Error") {
				t.Errorf("exception %q", row.Exception)
			}
			want := statuses[code]
			if want == "" {
				want = StatusError
			}
			if row.Status != want {
				t.Errorf("status %q, want %q", row.Status, want)
			}
			if code != CodeInternal && row == CodeInternal.Info() {
				t.Error("the row is that of internal: it has none of its own")
			}
		})
	}
	if Code("nonsense").Info() != CodeInternal.Info() {
		t.Error("an unknown code is not treated as internal")
	}
}

func TestOnlyPassingTroubleIsRetryable(t *testing.T) {
	t.Parallel()
	retryable := []Code{CodeApprovalRequired, CodeUpstreamUnavailable, CodeRateLimited, CodeCircuitOpen}
	for _, code := range Codes() {
		if got, want := Errorf(code, "x").Retryable, slices.Contains(retryable, code); got != want {
			t.Errorf("%s: retryable %v, want %v", code, got, want)
		}
	}
}

func TestPlatformTroubleIsToldFromAFailedTool(t *testing.T) {
	t.Parallel()
	platform := []Code{CodeSandboxUnavailable, CodeLimitNotEnforceable, CodeUnsupported, CodeInternal}
	for _, code := range Codes() {
		if got, want := code.Info().Platform, slices.Contains(platform, code); got != want {
			t.Errorf("%s: platform %v, want %v", code, got, want)
		}
	}
}

func TestCodeOfFindsTheCodeBehindAnError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{Errorf(CodeConflict, "x"), CodeConflict},
		{fmt.Errorf("while: %w", Errorf(CodeConflict, "x")), CodeConflict},
		{fmt.Errorf("while: %w", context.DeadlineExceeded), CodeTimeout},
		{context.Canceled, CodeCancelled},
		{errors.New("x"), CodeInternal},
	} {
		if got := CodeOf(tt.err); got != tt.want {
			t.Errorf("CodeOf(%v) = %q, want %q", tt.err, got, tt.want)
		}
		e := AsError(tt.err)
		if tt.err == nil {
			if e != nil {
				t.Errorf("AsError(nil) = %+v", e)
			}
			continue
		}
		if e.Code != tt.want || !errors.Is(e, tt.err) && !errors.Is(tt.err, e) {
			t.Errorf("AsError(%v) = %+v", tt.err, e)
		}
	}
}

func TestAnErrorMatchesItsCodeAndItsCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("disk full")
	err := fmt.Errorf("outer: %w", Errorf(CodeInternal, "cannot write: %w", cause))
	if !errors.Is(err, &Error{Code: CodeInternal}) || !errors.Is(err, cause) {
		t.Error("the code or the cause is lost")
	}
	if errors.Is(err, &Error{Code: CodeTimeout}) || errors.Is(err, &Error{Code: CodeInternal, Message: "another"}) {
		t.Error("it matches another error")
	}
}

func TestWithHintLeavesTheOriginalAlone(t *testing.T) {
	t.Parallel()
	plain := Errorf(CodeConflict, "x")
	if hinted := plain.WithHint("do %d", 1); hinted.Hint != "do 1" || plain.Hint != "" {
		t.Errorf("hinted %+v, plain %+v", hinted, plain)
	}
}
