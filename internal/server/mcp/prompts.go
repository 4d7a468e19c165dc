package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/source"
)

func (s *Server) listPrompts(ctx context.Context, next mcp.MethodHandler, method string, req *mcp.ListPromptsRequest) (mcp.Result, error) {
	led, cursor := *req, ""
	if req.Params != nil {
		cursor, led.Params = req.Params.Cursor, &mcp.ListPromptsParams{Meta: req.Params.Meta}
	}
	s.o.Ready(ctx)
	items := []any{}
	for _, p := range s.o.Library.Prompts(s.readers(ctx, library.GetTool)) {
		items = append(items, shown(p.Prompt, p.Raw, "name", p.Shown))
	}
	result, err := next(ctx, method, &led)
	return listOf(req.Session, result, err, "prompts", items, cursor)
}

func (s *Server) getPrompt(ctx context.Context, req *mcp.GetPromptRequest) (mcp.Result, error) {
	s.o.Ready(ctx)
	prompt, ok := s.o.Library.FindPrompt(req.Params.Name, s.readers(ctx, library.GetTool))
	if !ok {
		return nil, noPrompt(req.Params.Name)
	}
	sent, err := s.sent(req.Params.Meta, req.Params.InputResponses)
	if err != nil {
		return nil, err
	}
	given := sent.arguments
	if given == nil && len(req.Params.Arguments) > 0 {
		if given, err = jsonx.Marshal(req.Params.Arguments); err != nil {
			return nil, err
		}
	}
	ctx, leave := sent.within(ctx)
	defer leave()
	x := s.exchange(ctx, req.Session, req.ClientCapabilities(), req.Params.GetProgressToken())
	x.request = requestDigest("prompts/get", req.Params.Name, given)
	x.state, x.answers = req.Params.RequestState, sent.answers
	args := map[string]any{"name": prompt.Name}
	if given != nil {
		args["arguments"] = given
	}
	call, err := jsonx.Marshal(args)
	if err != nil {
		return nil, err
	}
	return s.converse(x, func(ctx context.Context, a asker, live func() *exchange) (mcp.Result, error) {
		result := s.perform(ctx, a, live, s.libraryCall(x, library.ToolID(prompt.Provider, library.GetTool), call, sent))
		if toolroom.CodeOf(result.Err()) == toolroom.CodeNotFound {
			return nil, noPrompt(req.Params.Name)
		}
		return asResult(relay(result, x.version))
	})
}

// asResult keeps a nil pointer from becoming a result.
func asResult(r *wireResult, err error) (mcp.Result, error) {
	if err != nil {
		return nil, err
	}
	return r, nil
}

func noPrompt(name string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "there is no prompt " + name + " (prompts/list has those that there are)"}
}

// maxCompletions is how many values the protocol lets an answer have.
const maxCompletions = 100

// complete suggests values for what a user types. A source that completes
// nothing suggests none.
func (s *Server) complete(ctx context.Context, req *mcp.CompleteRequest) (mcp.Result, error) {
	if req.Params.Ref == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "completion/complete needs ref, a prompt or a template"}
	}
	sent, err := s.sent(req.Params.Meta, nil)
	if err != nil {
		return nil, err
	}
	ask := source.Completion{
		Argument: req.Params.Argument.Name, Value: req.Params.Argument.Value, Identity: s.o.Identity(ctx), Meta: sent.meta, Params: sent.params,
	}
	if req.Params.Context != nil {
		ask.Known = req.Params.Context.Arguments
	}
	var provider string
	switch req.Params.Ref.Type {
	case "ref/prompt":
		prompt, ok := s.o.Library.FindPrompt(req.Params.Ref.Name, s.readers(ctx, library.GetTool))
		if !ok {
			return nil, noPrompt(req.Params.Ref.Name)
		}
		provider, ask.Prompt = prompt.Provider, prompt.Name
	default:
		ask.Template = req.Params.Ref.URI
		for _, t := range s.o.Library.Templates(s.readers(ctx, library.ReadTool)) {
			if t.URITemplate == ask.Template {
				provider = t.Provider
				break
			}
		}
	}
	found := source.Completions{}
	src, _ := s.o.Library.Source(provider)
	if completer, ok := source.As[source.Completer](src); ok {
		record := s.completionReceipt(provider, ask)
		found, err = completer.Complete(ctx, ask)
		if recorded := s.recordCompletion(ctx, record, err); err == nil {
			err = recorded
		}
		if err != nil {
			return nil, rpcError(toolroom.AsError(err))
		}
	}
	version := speaksVersion(req.Session)
	if found.Raw != nil && len(found.Values) <= maxCompletions {
		if out, err := relayed(found.Raw); err == nil && out.members.has("completion") {
			return out.of(version), nil
		}
	}
	if len(found.Values) > maxCompletions {
		found.Values, found.HasMore = found.Values[:maxCompletions], true
	}
	found.Values = append([]string{}, found.Values...)
	return (&wireResult{members: members(map[string]any{"completion": found})}).of(version), nil
}
