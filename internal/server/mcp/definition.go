package mcp

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

// definitionCache holds the tool definitions that clients see. Each is made once, because
// clients request the whole list of thousands whenever one of them has changed.
type definitionCache struct{ latest atomic.Pointer[definitionSet] }

// definitionSet holds the definitions for one version of the catalog.
type definitionSet struct {
	catalog uint64
	expose  *Exposure // decides the names of tools
	byTool  sync.Map  // cachedDefinition by *catalog.Entry
}

// cachedDefinition is the definition of a tool.
type cachedDefinition struct {
	text   json.RawMessage
	output *schema.Schema // its output schema; nil if it has none
}

// at returns the definitions for a version of the catalog and an exposure.
func (d *definitionCache) at(version uint64, expose *Exposure) *definitionSet {
	if made := d.latest.Load(); made != nil && made.catalog == version && made.expose == expose {
		return made
	}
	made := &definitionSet{catalog: version, expose: expose}
	d.latest.Store(made)
	return made
}

// list returns a JSON array with the server's own tools and those of entries.
func (d *definitionSet) list(own []*listedTool, entries []*catalog.Entry, name func(*catalog.Entry) string) (json.RawMessage, error) {
	items := make([]json.RawMessage, 0, len(own)+len(entries))
	for _, t := range own {
		text, err := jsonx.Marshal(t)
		if err != nil {
			return nil, err
		}
		items = append(items, text)
	}
	for _, e := range entries {
		one, err := d.get(e, name)
		if err != nil {
			return nil, err
		}
		items = append(items, one.text)
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

// get returns the definition of an entry, and makes it if necessary.
func (d *definitionSet) get(e *catalog.Entry, name func(*catalog.Entry) string) (cachedDefinition, error) {
	if made, ok := d.byTool.Load(e); ok {
		return made.(cachedDefinition), nil
	}
	var made cachedDefinition
	output := listedOutputSchema(&e.Tool)
	var err error
	if made.text, err = shortDefinition(e, name(e), output); err != nil {
		return made, err
	}
	if output != nil {
		if made.output, err = schema.Compile(output, schema.Limits{}); err != nil {
			return made, err
		}
	}
	d.byTool.Store(e, made)
	return made, nil
}

// definition returns the definition of a tool for clients. That of an MCP server's tool is
// passed on unchanged, except for the name, which every model API must accept, the schemas,
// and a description that was shortened.
func definition(of *toolroom.Tool, name string, output json.RawMessage, shortened bool) any {
	input := of.InputSchema
	if len(input) == 0 {
		input = json.RawMessage(`{"type":"object"}`)
	}
	if sent, err := readObject(of.Raw); err == nil {
		sent.set("name", name)
		sent.set("inputSchema", input)
		if shortened {
			sent.set("description", of.Description)
		}
		if len(output) == 0 {
			sent.drop("outputSchema")
		} else {
			sent.set("outputSchema", output)
		}
		return sent
	}
	t := &listedTool{
		Name: name, Title: of.Title, Description: of.Description, Annotations: annotations(of.Hints), InputSchema: input,
	}
	if len(output) > 0 {
		t.OutputSchema = output
	}
	return t
}

// listedTool is the definition of a tool of this server.
type listedTool struct {
	Annotations  *toolAnnotations `json:"annotations,omitempty"`
	Description  string           `json:"description,omitempty"`
	InputSchema  json.RawMessage  `json:"inputSchema"`
	Name         string           `json:"name"`
	OutputSchema json.RawMessage  `json:"outputSchema,omitempty"`
	Title        string           `json:"title,omitempty"`
}

// toolAnnotations are the hints of a tool in the form of the protocol.
type toolAnnotations struct {
	DestructiveHint *bool `json:"destructiveHint,omitempty"`
	IdempotentHint  bool  `json:"idempotentHint"`
	OpenWorldHint   *bool `json:"openWorldHint,omitempty"`
	ReadOnlyHint    bool  `json:"readOnlyHint"`
}

func annotations(h toolroom.Hints) *toolAnnotations {
	if h == (toolroom.Hints{}) {
		return nil
	}
	return &toolAnnotations{
		ReadOnlyHint:    h.IsReadOnly(),
		DestructiveHint: h.Destructive,
		IdempotentHint:  h.IsIdempotent(),
		OpenWorldHint:   h.OpenWorld,
	}
}
