package mcpserver

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// definitions are the tools as clients see them, each made once: a list of
// thousands is asked for whenever one of them has changed.
type definitions struct{ made atomic.Pointer[definitionSet] }

// definitionSet is what was made while the catalog had one version.
type definitionSet struct {
	catalog uint64
	byTool  sync.Map // of defined, by *catalog.Entry
}

// defined is a tool's definition in each era. The two share their memory where
// they are the same.
type defined struct{ modern, legacy json.RawMessage }

// now gives the definitions for a version of the catalog.
func (d *definitions) now(version uint64) *definitionSet {
	if made := d.made.Load(); made != nil && made.catalog == version {
		return made
	}
	made := &definitionSet{catalog: version}
	d.made.Store(made)
	return made
}

// list writes the tools of this server and those of sources as an array.
func (d *definitionSet) list(own []*mcp.Tool, entries []*catalog.Entry, version string, name func(*catalog.Entry) string) (json.RawMessage, error) {
	items := make([]json.RawMessage, 0, len(own)+len(entries))
	for _, t := range own {
		text, err := jsonx.Marshal(t)
		if err != nil {
			return nil, err
		}
		items = append(items, text)
	}
	for _, e := range entries {
		both, err := d.of(e, name)
		if err != nil {
			return nil, err
		}
		text := both.modern
		if version < firstModern {
			text = both.legacy
		}
		items = append(items, text)
	}
	size := 0
	for _, text := range items {
		size += len(text) + 1
	}
	list := append(make([]byte, 0, size+2), '[')
	for i, text := range items {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, text...)
	}
	return append(list, ']'), nil
}

func (d *definitionSet) of(e *catalog.Entry, name func(*catalog.Entry) string) (defined, error) {
	if made, ok := d.byTool.Load(e); ok {
		return made.(defined), nil
	}
	var made defined
	var err error
	shown := name(e)
	if made.modern, err = jsonx.Marshal(definition(e, shown, e.Tool.OutputSchema)); err != nil {
		return made, err
	}
	made.legacy = made.modern
	// Before 2026-07-28 structured content is always an object.
	if len(e.Tool.OutputSchema) > 0 && !describesObject(e.Tool.OutputSchema) {
		made.legacy, err = jsonx.Marshal(definition(e, shown, nil))
	}
	d.byTool.Store(e, made)
	return made, err
}

// definition is a tool as clients see it. What an MCP server said of its tool
// is passed on as it is; the name is the one that every model API accepts.
func definition(e *catalog.Entry, name string, output json.RawMessage) any {
	input := e.Tool.InputSchema
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	if sent, err := readObject(e.Tool.Raw); err == nil {
		sent.set("name", name)
		sent.set("inputSchema", input)
		if len(output) == 0 {
			sent.drop("outputSchema")
		} else {
			sent.set("outputSchema", output)
		}
		return sent
	}
	t := &mcp.Tool{
		Name: name, Title: e.Tool.Title, Description: e.Tool.Description, Annotations: annotations(e.Tool.Hints), InputSchema: input,
	}
	if len(output) > 0 {
		t.OutputSchema = output
	}
	return t
}

func annotations(h toolroom.Hints) *mcp.ToolAnnotations {
	if h == (toolroom.Hints{}) {
		return nil
	}
	return &mcp.ToolAnnotations{
		ReadOnlyHint:    h.IsReadOnly(),
		DestructiveHint: h.Destructive,
		IdempotentHint:  h.IsIdempotent(),
		OpenWorldHint:   h.OpenWorld,
	}
}

func describesObject(schema json.RawMessage) bool {
	var s struct {
		Type any `json:"type"`
	}
	return json.Unmarshal(schema, &s) == nil && s.Type == "object"
}
