package mcp

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
)

// SDKs of clients discard a whole result if its structured content does not fit the listed
// output schema, or if a schema is listed and there is no structured content; some do so for
// errors as well. The model then does not see that the call ran, and repeats it. So a schema
// is listed only for tools whose values are validated against it, and it promises only what
// holds for every result.

// maxListedMembers is the maximum number of members in a listed output schema. A schema with
// more members is listed as that of any object.
const maxListedMembers = 50

// listedOutputSchema returns the output schema of a tool for lists: the members of the value
// with their types. It requires no member, because a truncated value has none, and does not
// describe their parts, which may be truncated or redacted. It returns nil if the tool is
// listed without an output schema.
func listedOutputSchema(t *toolroom.Tool) json.RawMessage {
	var s struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if t.ChecksOutput() != toolroom.OutputStrict || json.Unmarshal(t.OutputSchema, &s) != nil || s.Type != "object" {
		return nil // before 2026-07-28 structured content is always an object
	}
	type member struct {
		Type any `json:"type,omitempty"`
	}
	listed := struct {
		Type       string            `json:"type"`
		Properties map[string]member `json:"properties,omitempty"`
	}{Type: "object"}
	if len(s.Properties) <= maxListedMembers {
		listed.Properties = map[string]member{}
		for name, raw := range s.Properties {
			var m member
			if json.Unmarshal(raw, &m) != nil {
				m = member{} // true or false
			}
			listed.Properties[name] = m
		}
	}
	text, err := jsonx.Marshal(listed)
	if err != nil {
		return nil
	}
	return text
}

// listedSchema returns the compiled output schema with which a tool is listed, or nil.
func (s *Server) listedSchema(e *catalog.Entry) *schema.Schema {
	one, err := s.currentDefinitions().get(e, s.listedName)
	if err != nil {
		return nil
	}
	return one.output
}

// textMember is the member of structured content for the text of a result whose value does
// not fit the listed schema.
const textMember = "toolroom_text"

// conform changes a result so that clients' SDKs accept it: a failed call has no structured
// content; if a schema is listed, there is structured content that fits it. It also adds
// warnings to the content, because models read that.
func (r *result) conform(of *toolroom.Result, listed *schema.Schema) error {
	value, err := r.member("structuredContent")
	if err != nil {
		return err
	}
	if listed != nil && of.Execution != nil && of.Error == nil { // a function in a sandbox
		value = of.Value
		r.members.set("structuredContent", value)
	}
	var more []string
	switch {
	case of.Error != nil && value != nil:
		r.members.drop("structuredContent")
		content, err := r.content()
		if err != nil {
			return err
		}
		if rest := dropRepeated(value, of.Text()); rest != "" && !containsText(content, string(value)) {
			more = append(more, rest)
		}
	case of.Error == nil && listed != nil && !fits(listed, value):
		r.members.set("structuredContent", map[string]string{textMember: of.Text()})
	}
	for _, w := range of.Warnings {
		more = append(more, "Note: the call has run, but "+w.Message)
	}
	return r.addTexts(more)
}

// shortMember is the length, in bytes, below which dropRepeated keeps a text: it may be in the
// content by accident, and costs little.
const shortMember = 12

// dropRepeated returns an object without the members whose texts said contains, such as the
// output of a program, which may be long. It returns "" if no member is left.
func dropRepeated(object json.RawMessage, said string) string {
	all, err := jsonx.Members(object)
	if err != nil {
		return string(object)
	}
	left := slices.DeleteFunc(slices.Clone(all), func(m jsonx.Member) bool {
		var text string
		if json.Unmarshal(m.Value, &text) != nil {
			return false
		}
		text = strings.TrimSpace(text)
		return len(text) >= shortMember && strings.Contains(said, text)
	})
	switch {
	case len(left) == len(all):
		return string(object)
	case len(left) == 0:
		return ""
	}
	out := []byte{'{'}
	for _, m := range left {
		out = appendMember(out, m.Name, m.Value)
	}
	return string(append(out, '}'))
}

// member returns a member as JSON, or nil if there is none.
func (r *result) member(name string) (json.RawMessage, error) {
	if raw := r.members.raw(name); raw != nil {
		return raw, nil
	}
	value, ok := r.members.own[name]
	if !ok {
		return nil, nil
	}
	if raw, ok := value.(json.RawMessage); ok {
		return raw, nil
	}
	return jsonx.Marshal(value)
}

func fits(s *schema.Schema, value json.RawMessage) bool {
	if value == nil {
		return false
	}
	if s.Accepts(value) {
		return true
	}
	document, err := jsonx.Decode(value, jsonx.Limits{Bytes: len(value)})
	return err == nil && s.Validate(document) == nil
}

// content returns the parts of the content.
func (r *result) content() (parts []json.RawMessage, err error) {
	raw, err := r.member("content")
	if err != nil {
		return nil, err
	}
	return parts, json.Unmarshal(raw, &parts)
}

// addTexts adds texts to the content, except JSON that is there already.
func (r *result) addTexts(texts []string) error {
	if len(texts) == 0 {
		return nil
	}
	content, err := r.content()
	if err != nil {
		return err
	}
	for _, text := range texts {
		if containsText(content, text) {
			continue
		}
		block, err := jsonx.Marshal(toolroom.TextContent(text))
		if err != nil {
			return err
		}
		content = append(content, block)
	}
	r.members.set("content", content)
	return nil
}

// containsText reports whether one of the blocks is a text that is the same JSON as text.
func containsText(content []json.RawMessage, text string) bool {
	var want bytes.Buffer
	if json.Compact(&want, []byte(text)) != nil {
		return false
	}
	for _, block := range content {
		var b struct{ Text string }
		var got bytes.Buffer
		if json.Unmarshal(block, &b) == nil && json.Compact(&got, []byte(b.Text)) == nil && bytes.Equal(got.Bytes(), want.Bytes()) {
			return true
		}
	}
	return false
}
