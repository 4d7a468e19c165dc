package room

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/library"
	"github.com/toolroom/toolroom/internal/pin"
	"github.com/toolroom/toolroom/source"
)

// offer asks a source for its resources and prompts. A source that has some and
// cannot list them now offers none: its tools are there all the same.
func (h *host) offer(ctx context.Context) library.Offer {
	o := library.Offer{Source: h.src, Plain: h.plain}
	note := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			h.log.Warn(what+" of a source cannot be listed", "source", h.name, "error", err)
		}
	}
	var err error
	if r, ok := source.As[source.Resources](h.src); ok {
		o.Resources, err = r.Resources(ctx)
		note("the resources", err)
		o.Templates, err = r.Templates(ctx)
		note("the resource templates", err)
	}
	if p, ok := source.As[source.Prompts](h.src); ok {
		o.Prompts, err = p.Prompts(ctx)
		note("the prompts", err)
	}
	if k, ok := source.As[source.Skills](h.src); ok {
		o.Skills, err = k.Skills(ctx)
		note("the skills", err)
	}
	return o
}

// libraryTools are the tools through which the resources and prompts of an offer
// are read, so that policy, limits and receipts hold for them too.
func (h *host) libraryTools(o library.Offer, kind toolroom.SourceKind) []toolroom.Tool {
	yes := true
	var tools []toolroom.Tool
	add := func(name, description, schema string) {
		tools = append(tools, toolroom.Tool{
			ID: library.ToolID(h.name, name), Description: description, Source: kind, Hidden: true,
			InputSchema: json.RawMessage(schema), Hints: toolroom.Hints{ReadOnly: &yes},
		})
	}
	if len(o.Resources)+len(o.Templates) > 0 || o.Skills != nil {
		add(library.ReadTool, "Read a resource of "+h.name+".",
			`{"type":"object","properties":{"uri":{"type":"string"}},"required":["uri"],"additionalProperties":false}`)
	}
	if len(o.Prompts) > 0 {
		add(library.GetTool, "Fill in a prompt of "+h.name+".",
			`{"type":"object","properties":{"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}},"required":["name"],"additionalProperties":false}`)
		tools[len(tools)-1].Raw = promptsDefinition(tools[len(tools)-1], o.Prompts)
	}
	return tools
}

// promptsDefinition makes what a source says of its prompts a part of the tool's
// definition: models see it, so it is pinned and read for attacks with the tool.
func promptsDefinition(t toolroom.Tool, prompts []source.Prompt) json.RawMessage {
	said := make(map[string]json.RawMessage, len(prompts))
	for _, p := range prompts {
		if len(p.Raw) > 0 {
			said[p.Name] = p.Raw
			continue
		}
		said[p.Name], _ = json.Marshal(p) // of plain data
	}
	text, _ := json.Marshal(promptsOf{t.ID.Name, t.Description, t.InputSchema, said})
	return text
}

// promptsOf is what a source says of its prompts, as the definition of a tool.
type promptsOf struct {
	Name        string                     `json:"name"`
	Description string                     `json:"description"`
	InputSchema json.RawMessage            `json:"inputSchema"`
	Prompts     map[string]json.RawMessage `json:"prompts"`
}

// saidPrompts are the prompts in a definition made by promptsDefinition.
func saidPrompts(definition json.RawMessage) map[string]json.RawMessage {
	var d promptsOf
	if json.Unmarshal(definition, &d) != nil {
		return nil
	}
	return d.Prompts
}

// samePrompts reports whether the prompts that two definitions share say the
// same in both.
func samePrompts(before, now json.RawMessage) bool {
	taken, offered := saidPrompts(before), saidPrompts(now)
	if len(taken) == 0 || len(offered) == 0 {
		return false
	}
	for name, text := range offered {
		said, known := taken[name]
		if !known {
			continue
		}
		a, aerr := pin.Seen(said, nil)
		b, berr := pin.Seen(text, nil)
		if aerr != nil || berr != nil || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// withPrompts is the pin of what was taken, and of the prompts that the tool
// offers besides. One that is gone stays in it: it may come back changed.
func withPrompts(before pin.Pin, tool toolroom.Tool) (pin.Pin, error) {
	var d promptsOf
	if err := json.Unmarshal(tool.Raw, &d); err != nil {
		return pin.Pin{}, err
	}
	maps.Copy(d.Prompts, saidPrompts(before.Raw))
	text, err := json.Marshal(d)
	if err != nil {
		return pin.Pin{}, err
	}
	tool.Raw = text
	return pin.Of(before.Source, &tool, before.Pinned)
}

// read calls one of the libraryTools. ok is false for any other tool.
func (h *host) read(ctx context.Context, req *source.Request) (out *source.Output, ok bool, err error) {
	var value json.RawMessage
	switch req.Tool.Name {
	case library.ReadTool:
		r, has := source.As[source.Resources](h.src)
		if !has {
			return nil, false, nil
		}
		var in struct {
			URI string `json:"uri"`
		}
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, true, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments cannot be read: %w", err)
		}
		value, err = r.ReadResource(ctx, in.URI, req)
	case library.GetTool:
		p, has := source.As[source.Prompts](h.src)
		if !has {
			return nil, false, nil
		}
		var in struct {
			Name      string            `json:"name"`
			Arguments map[string]string `json:"arguments"`
		}
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return nil, true, toolroom.Errorf(toolroom.CodeInvalidArguments, "the arguments cannot be read: %w", err)
		}
		value, err = p.GetPrompt(ctx, in.Name, in.Arguments, req)
	default:
		return nil, false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return &source.Output{Value: value}, true, nil
}

// SourceOptions say how a source of the program itself is offered.
type SourceOptions struct {
	// Plain shows its tools and prompts under their bare names, where these are
	// unique.
	Plain bool
}

// AddSource offers what src has, besides the sources of the config, under the
// namespace name. Its tools must have that namespace. The room closes src. The
// error is a conflict where the name is taken.
func (r *Room) AddSource(name string, src source.Source, o SourceOptions) error {
	r.mu.Lock()
	if r.hosts[name] != nil {
		r.mu.Unlock()
		return toolroom.Errorf(toolroom.CodeConflict, "there is a source %q already", name).WithHint("choose another name")
	}
	h := newHost(&host{
		name: name, src: &selected{Source: src, plain: o.Plain}, catalog: r.catalog, masker: r.masker,
		log: r.log, library: &r.library, plain: o.Plain, own: true,
	})
	r.hosts[name] = h
	started := r.stop != nil
	r.mu.Unlock()
	if started {
		h.keepListed()
	}
	return nil
}
