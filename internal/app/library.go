package app

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/reserved"
	"github.com/toolroom/toolroom/source"
)

// listLibrary lists a source's resources and prompts. If that fails, it returns an empty
// offer; the source's tools are not affected.
func (m *sourceManager) listLibrary(ctx context.Context) catalog.Offer {
	o := catalog.Offer{Source: m.src, Plain: m.plain}
	note := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			m.log.Warn(what+" of a source could not be listed", "source", m.name, "error", err)
		}
	}
	offered, ok := source.As[source.Library](m.src)
	if !ok {
		return o
	}
	var err error
	o.Resources, err = offered.Resources(ctx)
	note("the resources", err)
	o.Templates, err = offered.Templates(ctx)
	note("the resource templates", err)
	o.Prompts, err = offered.Prompts(ctx)
	note("the prompts", err)
	o.Skills, err = offered.Skills(ctx)
	note("the skills", err)
	return o
}

// libraryTools returns the tools that read the resources and prompts of an offer. Because
// they are tools, policy, limits and receipts apply.
func (m *sourceManager) libraryTools(o catalog.Offer, kind toolroom.SourceKind) []toolroom.Tool {
	yes := true
	var tools []toolroom.Tool
	add := func(name, description, schema string) {
		tools = append(tools, toolroom.Tool{
			ID: catalog.ToolID(m.name, name), Description: description, Source: kind, Hidden: true,
			InputSchema: json.RawMessage(schema), Hints: toolroom.Hints{ReadOnly: &yes},
		})
	}
	if len(o.Resources)+len(o.Templates) > 0 || o.Skills != nil {
		add(catalog.ReadTool, "Read a resource of "+m.name+".",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`)
	}
	if len(o.Prompts) > 0 {
		add(catalog.GetTool, "Fill in a prompt of "+m.name+".",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`)
		tools[len(tools)-1].Raw = promptsDefinition(tools[len(tools)-1], o.Prompts)
	}
	return tools
}

// promptsDefinition returns the definition of a tool with the source's prompts added.
// Models see the prompts, so they are versioned and checked for attacks with the tool.
func promptsDefinition(t toolroom.Tool, prompts []source.Prompt) json.RawMessage {
	said := make(map[string]json.RawMessage, len(prompts))
	for _, p := range prompts {
		if len(p.Raw) > 0 {
			said[p.Name] = p.Raw
			continue
		}
		said[p.Name], _ = json.Marshal(p) // plain data
	}
	text, _ := json.Marshal(promptDefinition{t.ID.Name, t.Description, t.InputSchema, said})
	return text
}

// promptDefinition is the definition of a tool with the source's prompts.
type promptDefinition struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description"`
	InputSchema json.RawMessage            `json:"inputSchema"`
	Prompts     map[string]json.RawMessage `json:"prompts"`
}

// promptsIn returns the prompts in a definition made by promptsDefinition.
func promptsIn(definition json.RawMessage) map[string]json.RawMessage {
	var d promptDefinition
	if json.Unmarshal(definition, &d) != nil {
		return nil
	}
	return d.Prompts
}

// readLibrary runs a call of one of the libraryTools. ok is false if it is a call of
// another tool.
func (m *sourceManager) readLibrary(ctx context.Context, req *source.Request) (out *source.Output, ok bool, err error) {
	var value json.RawMessage
	offered, has := source.As[source.Library](m.src)
	if !has {
		return nil, false, nil
	}
	switch req.Tool.Name {
	case catalog.ReadTool:
		var in struct {
			URI string `json:"uri"`
		}
		if err := jsonx.Unmarshal(req.Arguments, &in, jsonx.Limits{}); err != nil {
			return nil, true, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid arguments: %w", err)
		}
		value, err = offered.ReadResource(ctx, in.URI, req)
	case catalog.GetTool:
		var in struct {
			Name      string            `json:"name"`
			Arguments map[string]string `json:"arguments"`
		}
		if err := jsonx.Unmarshal(req.Arguments, &in, jsonx.Limits{}); err != nil {
			return nil, true, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid arguments: %w", err)
		}
		value, err = offered.GetPrompt(ctx, in.Name, in.Arguments, req)
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return &source.Output{Value: value}, true, nil
}

// SourceOptions configure a source that the program adds.
type SourceOptions struct {
	// Plain shows the source's tools and prompts under their bare names if these are
	// unique.
	Plain bool
}

// AddSource adds src under the namespace name, besides the sources of the config. Its tools
// must have that namespace. The room closes src. The error is a conflict if the name is in
// use or reserved.
func (a *App) AddSource(name string, src source.Source, o SourceOptions) error {
	if err := reserved.Check(name); err != nil {
		return err
	}
	a.reloadMu.Lock() // or a reload that began before would drop it
	defer a.reloadMu.Unlock()
	if a.closed {
		return errClosed()
	}
	if a.manager(name) != nil {
		return toolroom.Errorf(toolroom.CodeConflict, "source %q already exists", name).WithHint("choose another name")
	}
	// Without a.mu, because the source may use the room when it gets the functions to call.
	m := newManager(&sourceManager{
		name: name, src: &selectedSource{predictingSource: predictingSource{Source: src}, plain: o.Plain}, catalog: a.catalog, redactor: a.redactor,
		log: a.log, library: &a.library, plain: o.Plain, fromProgram: true,
	})
	a.mu.Lock()
	a.managers[name] = m
	started := a.stop != nil
	a.mu.Unlock()
	m.publish()
	if started {
		m.listUntilSuccess()
	}
	return nil
}
