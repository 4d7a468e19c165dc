package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/source"
)

func (s *Server) listPrompts(r *request) (*result, error) {
	cursor, err := cursorOf(r)
	if err != nil {
		return nil, err
	}
	s.o.Ready(r.ctx)
	items := []any{}
	for _, p := range s.o.Library.Prompts(s.readableBy(r.who, catalog.GetTool)) {
		items = append(items, definitionFor(p.Prompt, p.Raw, "name", p.Shown))
	}
	return paginatedResult("prompts", items, cursor)
}

func (s *Server) getPrompt(r *request) (*result, error) {
	s.o.Ready(r.ctx)
	prompt, ok := s.o.Library.FindPrompt(r.Name, s.readableBy(r.who, catalog.GetTool))
	if !ok {
		return nil, promptNotFound(r.Name)
	}
	args := map[string]any{"name": prompt.Name}
	if r.Arguments != nil {
		args["arguments"] = r.Arguments
	}
	call, err := jsonx.Marshal(args)
	if err != nil {
		return nil, err
	}
	return s.serveRounds(r, func(ctx context.Context, c client) (*result, error) {
		got := s.runWithApproval(ctx, c, s.libraryCall(r, catalog.ToolID(prompt.Provider, catalog.GetTool), call), nil)
		if toolroom.CodeOf(got.Err()) == toolroom.CodeNotFound {
			return nil, promptNotFound(r.Name)
		}
		return libraryResult(got)
	})
}

func promptNotFound(name string) error {
	return invalidParams("there is no prompt " + name + " (prompts/list has those that there are)")
}

// maxCompletions is the maximum number of values that the protocol permits in a result.
const maxCompletions = 100

// completeParams are the parameters of completion/complete.
type completeParams struct {
	Ref *struct {
		Type string `json:"type"`
		Name string `json:"name"`
		URI  string `json:"uri"`
	} `json:"ref"`
	Argument struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"argument"`
	Context *struct {
		Arguments map[string]string `json:"arguments"`
	} `json:"context"`
}

// complete answers completion/complete with the values that a source suggests for an argument
// of a prompt or template. They are empty if the source does not support completion.
func (s *Server) complete(r *request) (*result, error) {
	var p completeParams
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &p); err != nil {
			return nil, invalidParams("the parameters of completion/complete do not fit: " + err.Error())
		}
	}
	if p.Ref == nil {
		return nil, invalidParams("completion/complete needs ref, a prompt or a template")
	}
	ask := source.Completion{Argument: p.Argument.Name, Value: p.Argument.Value, Identity: r.who, Meta: r.Meta, Params: r.Params}
	if p.Context != nil {
		ask.Known = p.Context.Arguments
	}
	s.o.Ready(r.ctx)
	var provider string
	switch p.Ref.Type {
	case "ref/prompt":
		prompt, ok := s.o.Library.FindPrompt(p.Ref.Name, s.readableBy(r.who, catalog.GetTool))
		if !ok {
			return nil, promptNotFound(p.Ref.Name)
		}
		provider, ask.Prompt = prompt.Provider, prompt.Name
	case "ref/resource":
		ask.Template = p.Ref.URI
		for _, t := range s.o.Library.Templates(s.readableBy(r.who, catalog.ReadTool)) {
			if t.URITemplate == ask.Template {
				provider = t.Provider
				break
			}
		}
	default:
		return nil, invalidParams("completion/complete needs a ref of type ref/prompt or ref/resource")
	}
	if !s.mayComplete(r, provider, ask) {
		return &result{members: newObject(map[string]any{"completion": source.Completions{Values: []string{}}})}, nil
	}
	found, err := s.completions(r.ctx, provider, ask)
	if err != nil {
		return nil, rpcError(toolroom.AsError(err))
	}
	if found.Raw != nil && len(found.Values) <= maxCompletions {
		if out, err := parseResult(found.Raw); err == nil && out.members.has("completion") {
			return out, nil
		}
	}
	if len(found.Values) > maxCompletions {
		found.Values, found.HasMore = found.Values[:maxCompletions], true
	}
	found.Values = append([]string{}, found.Values...)
	return &result{members: newObject(map[string]any{"completion": found})}, nil
}

// mayComplete reports whether a caller may get the prompt, or read the template, that it wants
// to complete.
func (s *Server) mayComplete(r *request, provider string, ask source.Completion) bool {
	if ask.Prompt != "" {
		return s.mayAsk(r.ctx, r.who, catalog.ToolID(provider, catalog.GetTool), map[string]any{"name": ask.Prompt, "arguments": ask.Known})
	}
	return s.mayAsk(r.ctx, r.who, catalog.ToolID(provider, catalog.ReadTool), map[string]any{"uri": ask.Template})
}

// mayAsk reports whether a caller may send a source a request that is not a call, but concerns
// the same object as a call of tool would. Sources enforce rules about effects only in calls,
// so a caller with such rules may not.
func (s *Server) mayAsk(ctx context.Context, who toolroom.Identity, tool toolroom.ID, arguments map[string]any) bool {
	e, err := s.o.Runner.Catalog.Resolve(tool.String(), nil)
	if err != nil {
		return false
	}
	raw, err := json.Marshal(arguments)
	if err != nil {
		return false
	}
	call := &policy.Context{
		Arguments: func() (any, error) { return arguments, nil }, Surface: "mcp", Time: s.o.Runner.Now(), Effects: s.o.Runner.PredictEffects(e, who, raw),
	}
	d := s.o.Runner.JudgeArguments(ctx, e, policy.Request{Tool: &e.Tool, Who: who, Call: call}, raw)
	return d.Effect != toolroom.VerdictDeny && len(d.Forbidden()) == 0
}

// completions asks a source for completions, and records a receipt.
func (s *Server) completions(ctx context.Context, provider string, ask source.Completion) (source.Completions, error) {
	src, _ := s.o.Library.Source(provider)
	offered, ok := source.As[source.Library](src)
	if !ok {
		return source.Completions{}, nil
	}
	record := s.completionReceipt(provider, ask)
	found, err := offered.Complete(ctx, ask)
	if recorded := s.recordCompletion(ctx, record, err); err == nil {
		err = recorded
	}
	return found, err
}

// completionTool is the name, within a namespace, under which completions are recorded.
const completionTool = "completion.complete"

// completionReceipt returns the receipt of a completion that is about to be requested.
// Like a call, a completion sends the client's text to a server.
func (s *Server) completionReceipt(provider string, ask source.Completion) *receipt.Draft {
	arguments, err := json.Marshal(map[string]string{
		"prompt": ask.Prompt, "template": ask.Template, "argument": ask.Argument, "value": ask.Value,
	})
	if err != nil {
		arguments = nil
	}
	started := s.o.Runner.Now()
	return &receipt.Draft{Receipt: toolroom.Receipt{
		ID:   "completion_" + strings.ToLower(rand.Text()),
		Tool: provider + ":" + completionTool, Surface: "mcp", Identity: ask.Identity, Source: toolroom.SourceMCP,
		Arguments: s.o.Runner.Secrets.Redact(arguments), Started: started,
	}}
}

// recordCompletion stores the receipt of a completion that has ended.
func (s *Server) recordCompletion(ctx context.Context, r *receipt.Draft, failed error) error {
	if s.o.Runner.Receipts == nil {
		return nil
	}
	r.Status, r.Effects = toolroom.StatusOK, toolroom.EffectsDone
	if failed != nil {
		e := *toolroom.AsError(failed)
		e.Details, e.Cause, e.Hint = nil, nil, ""
		r.Error, r.Status, r.Effects = &e, e.Code.Info().Status, toolroom.EffectsUnknown
	}
	r.Usage.Run = max(s.o.Runner.Now().Sub(r.Started), time.Nanosecond)
	return s.o.Runner.Receipts.Append(context.WithoutCancel(ctx), r)
}
