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

// definitions are the tools as clients see them, each made once: a list of
// thousands is asked for whenever one of them has changed.
type definitions struct{ made atomic.Pointer[definitionSet] }

// definitionSet is what was made while the catalog had one version.
type definitionSet struct {
	catalog uint64
	expose  *Exposure // which names tools
	byTool  sync.Map  // of defined, by *catalog.Entry
}

// defined is a tool's definition, and the output schema in it; nil for none.
type defined struct {
	text   json.RawMessage
	output *schema.Schema
}

// now gives the definitions for a version of the catalog and an exposure.
func (d *definitions) now(version uint64, expose *Exposure) *definitionSet {
	if made := d.made.Load(); made != nil && made.catalog == version && made.expose == expose {
		return made
	}
	made := &definitionSet{catalog: version, expose: expose}
	d.made.Store(made)
	return made
}

// list writes the tools of this server and those of sources as an array.
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
		one, err := d.of(e, name)
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

func (d *definitionSet) of(e *catalog.Entry, name func(*catalog.Entry) string) (defined, error) {
	if made, ok := d.byTool.Load(e); ok {
		return made.(defined), nil
	}
	var made defined
	output := listedOutput(&e.Tool)
	var err error
	if made.text, err = smallDefinition(e, name(e), output); err != nil {
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

// definition is a tool as clients see it. What an MCP server said of its tool
// is passed on as it is, unless it is long; the name is the one that every model API accepts.
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

// toolAnnotations are hints as the protocol has them.
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
