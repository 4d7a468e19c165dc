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

// The SDKs of clients throw away a whole answer if its structured content does
// not fit the output schema in the list, or is missing beside one, and some do
// so for errors as well. Their model then does not see that the call ran, and
// calls again. So a schema is listed only for tools whose values are held to it,
// and it says no more than what is true of each answer.

// maxListedMembers is the number of members that a listed output schema names. One
// of more members says only that it is an object.
const maxListedMembers = 50

// listedOutput is the output schema of a tool in lists, nil for none: the members
// of the value with their types. It requires none, because a value that is too
// long to show has none, and it says nothing of their parts, which may be
// truncated or redacted.
func listedOutput(t *toolroom.Tool) json.RawMessage {
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

// told is the output schema of a tool in the lists of clients, nil for none.
func (s *Server) told(e *catalog.Entry) *schema.Schema {
	one, err := s.defined().of(e, s.shownName)
	if err != nil {
		return nil
	}
	return one.output
}

// textMember is the member of structured content that holds the text of a result
// whose value cannot be sent as its schema promises.
const textMember = "toolroom_text"

// acceptable makes an answer one that a client's SDK takes. A failed call has no
// structured content. Where the client was told a schema there is some, and it
// fits. Warnings are part of the content, which models read.
func (r *result) acceptable(of *toolroom.Result, told *schema.Schema) error {
	value, err := r.member("structuredContent")
	if err != nil {
		return err
	}
	if told != nil && of.Execution != nil && of.Error == nil { // a function in a sandbox
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
		if rest := unsaid(value, of.Text()); rest != "" && !holds(content, string(value)) {
			more = append(more, rest)
		}
	case of.Error == nil && told != nil && !fits(told, value):
		r.members.set("structuredContent", map[string]string{textMember: of.Text()})
	}
	for _, w := range of.Warnings {
		more = append(more, "Note: the call has run, but "+w.Message)
	}
	return r.addTexts(more)
}

// shortMember is the length of a text, in bytes, that may be said twice: it may be in the
// content by accident, and costs little.
const shortMember = 12

// unsaid returns an object without the members whose texts are in said, such as the output
// of a program, which may be long. It returns "" if no member is left.
func unsaid(object json.RawMessage, said string) string {
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

// member is a member as JSON, nil if there is none.
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
		if holds(content, text) {
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

// holds reports whether one of the blocks is a text with the same JSON.
func holds(content []json.RawMessage, text string) bool {
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
