package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/mcp"
)

// handleError converts the error of a request to the error for the caller, and drops or checks
// the connection if necessary. what describes the request.
func (l *link) handleError(ctx context.Context, up *upstream, what string, err error) error {
	if ctx.Err() != nil {
		// Look at the cause: contexts within a call report its deadline as a
		// cancellation.
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			l.checkAlive(up, "the request to "+what+" timed out")
			return context.DeadlineExceeded
		}
		return ctx.Err()
	}
	if ours, ok := errors.AsType[*toolroom.Error](err); ok {
		return ours
	}
	if slow, ok := errors.AsType[*listTimeoutError](err); ok {
		l.checkAlive(up, "the request to "+what+" timed out")
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s cannot %s: %w", l.s.o.Namespace, what, slow)
		e.Effects = toolroom.EffectsNone
		return l.withTimeoutHint(e)
	}
	if needed := (*oauth.Needed)(nil); errors.As(err, &needed) {
		return l.handleNeedsLogin(up, needed)
	}
	namespace := l.s.o.Namespace
	if refused := (*oauth.Refused)(nil); errors.As(err, &refused) {
		return toolroom.Errorf(toolroom.CodeDenied, "the MCP server %s did not permit to %s: %w", namespace, what, refused).
			WithHint("ask its operator to grant the missing permission")
	}
	if rpc, ok := errors.AsType[*mcp.Error](err); ok {
		e := toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s refused to %s: %s", namespace, what, rpc.Message)
		e.RPC = &toolroom.RPCError{Code: rpc.Code, Message: rpc.Message, Data: json.RawMessage(rpc.Data)}
		if rpc.HasOtherMembers() {
			e.RPC.Sent = rpc.Sent
		}
		if missing := rpc.Missing(); missing != nil {
			e.Code = toolroom.CodeUnsupported
			e.Missing = missing
		}
		return e
	}
	if up.session.HasEnded() || errors.Is(err, mcp.ErrSessionGone) {
		if given := up.givenUp.Load(); given != nil {
			err = *given
		} else if up.waitForExit() {
			err = up.withExitStatus(err)
		}
		l.drop(up, err.Error())
	} else {
		l.checkAlive(up, "the request to "+what+" had no usable answer") // one bad response must not end the other calls on this connection
	}
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s did not answer the request to %s: %w", namespace, what, err)
	if tail := lastLines(up.stderr); tail != "" {
		e.Details = map[string]any{"stderr": tail}
	}
	if errors.Is(err, mcp.ErrUnanswered) {
		// A client connected directly would have no result either: this is an error
		// of the protocol, not of the tool.
		e.Details, e.RPC = nil, &toolroom.RPCError{Code: mcp.CodeInternal, Message: e.Message}
	}
	return e.WithHint("the next call reconnects").WithCLIHint("toolroom sources test %s", namespace)
}

// handleRequestError is like fault, and reports that the tool, resource or prompt was not
// found if the server refuses a tool that it does not list, or an unknown resource
// or prompt.
func (s *Source) handleRequestError(ctx context.Context, l *link, up *upstream, tool toolroom.ID, e *serverRequest, err error) error {
	fault := l.handleError(ctx, up, e.describe(), err)
	rpc := (*mcp.Error)(nil)
	if !errors.As(err, &rpc) || toolroom.CodeOf(fault) != toolroom.CodeUpstreamError {
		return fault
	}
	if e.method != callMethod {
		if rpc.Code == mcp.CodeNoResource || rpc.Code == mcp.CodeInvalidParams {
			notFound := *toolroom.AsError(fault)
			notFound.Code = toolroom.CodeNotFound
			return &notFound
		}
		return fault
	}
	tools, listErr := s.list(ctx, up)
	listed := slices.ContainsFunc(tools, func(t toolroom.Tool) bool { return t.ID.Name == tool.Name })
	if listErr != nil || listed {
		return fault
	}
	return toolroom.Errorf(toolroom.CodeToolNotFound, "the MCP server %s does not offer the tool %s, or no longer does", s.o.Namespace, tool.Name)
}

// describe describes the request to people.
func (e *serverRequest) describe() string {
	if e.method == callMethod {
		return "call " + e.name
	}
	return "answer " + e.method
}
