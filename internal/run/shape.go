package run

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// maxBinaryContent is the largest image, audio or resource blob that stays in a
// result; a larger one becomes an artifact.
const maxBinaryContent = 4 << 20

// shape cuts what is too long to show and keeps the whole under a handle. Of a
// long text it leaves the head and the tail; a long value of another kind
// becomes the text of its JSON, cut the same way. Secrets are masked first: half
// of one is one too much.
func (p *pass) shape() error {
	p.maskResult()
	limit := p.call.MaxOutput
	if limit == 0 {
		limit = p.Limits.OutputBytes
	}
	if err := p.moveBinaries(); err != nil {
		return err
	}
	r := &p.result
	texts := 0
	for _, c := range r.Content {
		if c.Type == toolroom.ContentText {
			texts += len(c.Text)
		}
	}
	if limit < 0 || len(r.Value) <= limit && texts <= limit {
		return nil
	}

	text, mimeType := wholeText(r)
	kept, err := p.keep("result", mimeType, []byte(text))
	if err != nil {
		return err
	}
	shown, hidden := cut(text, limit, kept.Handle)
	value, err := jsonx.Marshal(shown)
	if err != nil {
		return err
	}
	r.Value, r.Raw = value, nil
	r.Hidden = &toolroom.Hidden{Bytes: hidden, Handle: kept.Handle}
	content := []toolroom.Content{toolroom.TextContent(shown)}
	for _, c := range r.Content {
		if c.Type != toolroom.ContentText {
			content = append(content, c)
		}
	}
	r.Content = content
	return nil
}

// wholeText is all that a long result says: the text that a model would read,
// and the value as well where it says something else.
func wholeText(r *toolroom.Result) (text, mimeType string) {
	text = r.Text()
	value := string(r.Value)
	if value == "" || text == value || sameJSON(text, r.Value) {
		return text, "text/plain"
	}
	both, err := jsonx.Marshal(map[string]any{"text": text, "value": r.Value})
	if err != nil {
		return text, "text/plain"
	}
	return string(both), "application/json"
}

// sameJSON reports whether text says no more than the value: it is the value, or
// its JSON but for white space, or the only member of an object, as servers
// write that repeat their text as structured content.
func sameJSON(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		var s string
		return json.Unmarshal(value, &s) == nil && s == text
	case '{':
		var only map[string]json.RawMessage
		if json.Unmarshal(value, &only) == nil && len(only) == 1 {
			for _, member := range only {
				if len(member) > 0 && member[0] == '"' && sameJSON(text, member) {
					return true
				}
			}
		}
	}
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, value) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

// cut leaves three quarters of the limit at the head and the rest at the tail,
// both ending at rune boundaries, and counts exactly what is between them.
func cut(text string, limit int, handle string) (shown string, hidden int64) {
	head := runeStart(text, limit*3/4)
	tail := len(text) - (limit - limit*3/4)
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	hidden = int64(tail - head)
	return text[:head] + fmt.Sprintf("\n[Output truncated - %d bytes hidden; read them: artifact %s from byte %d]\n", hidden, handle, head) + text[tail:], hidden
}

func runeStart(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}

// moveBinaries turns large blobs into artifacts.
func (p *pass) moveBinaries() error {
	copied := false
	for i, c := range p.result.Content {
		if len(c.Data) <= maxBinaryContent {
			continue
		}
		kept, err := p.keep(string(c.Type), c.MIMEType, c.Data)
		if err != nil {
			return err
		}
		if !copied { // the list may be the source's own, or in the cache
			p.result.Content = append([]toolroom.Content(nil), p.result.Content...)
			copied = true
		}
		p.result.Content[i] = toolroom.Content{Type: toolroom.ContentResourceLink, URI: "toolroom://artifacts/" + kept.Handle, MIMEType: c.MIMEType}
		p.result.Raw = nil
	}
	return nil
}

// keep stores bytes for the caller. When that is not possible the call fails:
// a result is never shown cut without a way to the rest.
func (p *pass) keep(name, mimeType string, data []byte) (toolroom.Artifact, error) {
	if p.Artifacts == nil {
		return toolroom.Artifact{}, toolroom.Errorf(toolroom.CodeResourceLimit,
			"the result of %s has %d bytes, more than may be shown, and there is no store for the rest", p.tool, len(data)).
			WithHint("ask the tool for less")
	}
	kept, err := p.Artifacts.PutResult(p.ctx, p.call.Identity.Key(), name, mimeType, bytes.NewReader(data))
	if err != nil {
		return toolroom.Artifact{}, err
	}
	p.result.Artifacts = append(p.result.Artifacts, kept)
	return kept, nil
}
