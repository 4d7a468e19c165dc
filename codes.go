package toolroom

// Exit codes of the command line. Users' scripts depend on them.
const (
	ExitOK               = 0
	ExitFailed           = 1 // the tool or the program failed
	ExitError            = 2 // usage, config or platform
	ExitDenied           = 3 // denied or declined
	ExitNotFound         = 4
	ExitInvalidArguments = 5
	ExitTimeout          = 124
	ExitCancelled        = 130
)

// JSON-RPC error codes of MCP responses. Zero means a tool result with isError, which the
// model reads.
const (
	rpcToolError     = 0
	rpcInvalidParams = -32602
	rpcInternal      = -32603
)

// CodeInfo describes how each surface reports a code.
type CodeInfo struct {
	HTTPStatus int
	// RPC is the JSON-RPC error code of an MCP response. Zero means a tool result with
	// isError.
	RPC  int
	Exit int
	// Exception is the class that Python code mode raises: a built-in class that authors
	// know.
	Exception string
	Status    Status
	// Retryable reports whether the same call may usually succeed later.
	Retryable bool
	// Platform reports whether Toolroom failed, rather than the tool.
	Platform bool
}

// Info returns the properties of c. An unknown code has those of internal.
func (c Code) Info() CodeInfo {
	switch c {
	case CodeInvalidID:
		return CodeInfo{HTTPStatus: 400, RPC: rpcInvalidParams, Exit: ExitInvalidArguments, Exception: "ValueError", Status: StatusError}
	case CodeToolNotFound:
		return CodeInfo{HTTPStatus: 404, RPC: rpcInvalidParams, Exit: ExitNotFound, Exception: "LookupError", Status: StatusError}
	case CodeAmbiguousTool:
		return CodeInfo{HTTPStatus: 409, RPC: rpcInvalidParams, Exit: ExitNotFound, Exception: "LookupError", Status: StatusError}
	case CodeInvalidArguments:
		return CodeInfo{HTTPStatus: 422, RPC: rpcToolError, Exit: ExitInvalidArguments, Exception: "ValueError", Status: StatusError}
	case CodeInvalidOutput:
		return CodeInfo{HTTPStatus: 502, RPC: rpcToolError, Exit: ExitFailed, Exception: "ToolError", Status: StatusError}
	case CodeInvalidCursor:
		return CodeInfo{HTTPStatus: 400, RPC: rpcInvalidParams, Exit: ExitInvalidArguments, Exception: "ValueError", Status: StatusError}
	case CodeDenied:
		return CodeInfo{HTTPStatus: 403, RPC: rpcToolError, Exit: ExitDenied, Exception: "PermissionError", Status: StatusDenied}
	case CodeApprovalRequired:
		return CodeInfo{HTTPStatus: 403, RPC: rpcToolError, Exit: ExitDenied, Exception: "PermissionError", Status: StatusDenied, Retryable: true}
	case CodeApprovalDeclined, CodeApprovalExpired:
		return CodeInfo{HTTPStatus: 403, RPC: rpcToolError, Exit: ExitDenied, Exception: "PermissionError", Status: StatusDenied}
	case CodeCancelled:
		return CodeInfo{HTTPStatus: 499, RPC: rpcToolError, Exit: ExitCancelled, Exception: "CancelledError", Status: StatusCancelled}
	case CodeTimeout:
		return CodeInfo{HTTPStatus: 504, RPC: rpcToolError, Exit: ExitTimeout, Exception: "TimeoutError", Status: StatusTimeout}
	case CodeBudgetExceeded, CodeResourceLimit:
		return CodeInfo{HTTPStatus: 429, RPC: rpcToolError, Exit: ExitFailed, Exception: "ToolError", Status: StatusError}
	case CodeSandboxUnavailable:
		return CodeInfo{HTTPStatus: 503, RPC: rpcToolError, Exit: ExitError, Exception: "ToolError", Status: StatusError, Platform: true}
	case CodeLimitNotEnforceable:
		return CodeInfo{HTTPStatus: 422, RPC: rpcToolError, Exit: ExitError, Exception: "ValueError", Status: StatusError, Platform: true}
	case CodeExecutionFailed:
		return CodeInfo{HTTPStatus: 502, RPC: rpcToolError, Exit: ExitFailed, Exception: "ToolError", Status: StatusError}
	case CodeUpstreamUnavailable:
		return CodeInfo{HTTPStatus: 503, RPC: rpcToolError, Exit: ExitFailed, Exception: "ConnectionError", Status: StatusError, Retryable: true}
	case CodeUpstreamError:
		return CodeInfo{HTTPStatus: 502, RPC: rpcToolError, Exit: ExitFailed, Exception: "ToolError", Status: StatusError}
	case CodeRateLimited:
		return CodeInfo{HTTPStatus: 429, RPC: rpcToolError, Exit: ExitFailed, Exception: "ToolError", Status: StatusError, Retryable: true}
	case CodeCircuitOpen:
		return CodeInfo{HTTPStatus: 503, RPC: rpcToolError, Exit: ExitFailed, Exception: "ConnectionError", Status: StatusError, Retryable: true}
	case CodeConflict:
		return CodeInfo{HTTPStatus: 409, RPC: rpcToolError, Exit: ExitInvalidArguments, Exception: "ValueError", Status: StatusError}
	case CodeNotFound:
		return CodeInfo{HTTPStatus: 404, RPC: rpcInvalidParams, Exit: ExitNotFound, Exception: "LookupError", Status: StatusError}
	case CodeUnauthenticated:
		return CodeInfo{HTTPStatus: 401, RPC: rpcToolError, Exit: ExitDenied, Exception: "PermissionError", Status: StatusDenied}
	case CodeUnsupported:
		return CodeInfo{HTTPStatus: 501, RPC: rpcToolError, Exit: ExitError, Exception: "NotImplementedError", Status: StatusError, Platform: true}
	default:
		return CodeInfo{HTTPStatus: 500, RPC: rpcInternal, Exit: ExitError, Exception: "RuntimeError", Status: StatusError, Platform: true}
	}
}

// Codes returns all codes, in the order of the design.
func Codes() []Code {
	return []Code{
		CodeInvalidID, CodeToolNotFound, CodeAmbiguousTool, CodeInvalidArguments, CodeInvalidOutput, CodeInvalidCursor,
		CodeDenied, CodeApprovalRequired, CodeApprovalDeclined, CodeApprovalExpired,
		CodeCancelled, CodeTimeout, CodeBudgetExceeded, CodeResourceLimit,
		CodeSandboxUnavailable, CodeLimitNotEnforceable, CodeExecutionFailed,
		CodeUpstreamUnavailable, CodeUpstreamError, CodeRateLimited, CodeCircuitOpen,
		CodeConflict, CodeNotFound, CodeUnauthenticated, CodeUnsupported, CodeInternal,
	}
}
