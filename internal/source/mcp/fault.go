package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
	"github.com/toolroom/toolroom/source"
)

// fault gives the error of a request its meaning, for the caller and for the
// link.
func (l *link) fault(ctx context.Context, up *upstream, what string, err error) error {
	if ctx.Err() != nil {
		// The cause, since contexts within a call call its deadline a cancel.
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
			l.doubt(up)
			return context.DeadlineExceeded
		}
		return ctx.Err()
	}
	var ours *toolroom.Error
	if errors.As(err, &ours) {
		return ours
	}
	if needed := (*oauth.Needed)(nil); errors.As(err, &needed) {
		return l.unauthorised(up, needed)
	}
	namespace := l.s.o.Namespace
	if refused := (*oauth.Refused)(nil); errors.As(err, &refused) {
		return toolroom.Errorf(toolroom.CodeDenied, "the MCP server %s did not let us %s: %w", namespace, what, refused).
			WithHint("have its operator grant what is missing")
	}
	var rpc *wire.Error
	if errors.As(err, &rpc) {
		e := toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s refused to %s: %s", namespace, what, rpc.Message)
		e.Details = map[string]any{source.DetailRPCCode: rpc.Code, source.DetailRPCMessage: rpc.Message}
		if len(rpc.Data) > 0 {
			e.Details[source.DetailRPCData] = json.RawMessage(rpc.Data)
		}
		if rpc.More() {
			e.Details[source.DetailRPCSent] = rpc.Sent
		}
		if missing := rpc.Missing(); missing != nil {
			e.Code = toolroom.CodeUnsupported
			e.Details[source.DetailCapabilities] = missing
		}
		return e
	}
	l.lose(up, err.Error())
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s did not answer the request to %s: %w", namespace, what, err)
	if tail := lastLines(up.stderr); tail != "" {
		e.Details = map[string]any{"stderr": tail}
	}
	if errors.Is(err, wire.ErrUnanswered) {
		// A client of the server itself would have no result either: this is an
		// error of the protocol, not one that the tool has told.
		e.Details = map[string]any{source.DetailRPCCode: int64(wire.CodeInternal), source.DetailRPCMessage: e.Message}
	}
	return e.WithHint("the next call connects anew; see what is wrong: toolroom sources test %s", namespace)
}

// codeNoResource is what older servers answer to a URI that they do not know;
// modern ones answer with invalid params.
const (
	codeNoResource    = -32002
	codeInvalidParams = -32602
)

// errandFault is fault for an errand: a server that refuses a tool which it does
// not list has no such tool, and the same holds for a resource or prompt.
func (s *Source) errandFault(ctx context.Context, l *link, up *upstream, tool toolroom.ID, e *errand, err error) error {
	fault := l.fault(ctx, up, e.what(), err)
	rpc := (*wire.Error)(nil)
	if !errors.As(err, &rpc) || toolroom.CodeOf(fault) != toolroom.CodeUpstreamError {
		return fault
	}
	if e.method != callMethod {
		if rpc.Code == codeNoResource || rpc.Code == codeInvalidParams {
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
	return toolroom.Errorf(toolroom.CodeToolNotFound, "the MCP server %s has no tool %s (any more)", s.o.Namespace, tool.Name)
}

// what is the errand for people.
func (e *errand) what() string {
	if e.method == callMethod {
		return "call " + e.name
	}
	return "answer " + e.method
}
