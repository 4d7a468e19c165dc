package mcp

import (
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// readResult reads a result, and its members if they are not read yet. Structured content
// becomes the value; the runner makes a value of content alone.
func readResult(tool toolroom.ID, raw json.RawMessage, members []jsonx.Member) (*source.Output, error) {
	out := &source.Output{Raw: raw}
	kind := ""
	var err error
	if members == nil {
		members, err = jsonx.Members(raw)
	}
	for _, m := range members {
		switch m.Name {
		case "content":
			out.Content, err = readContent(m.Value)
		case "structuredContent":
			if string(m.Value) != "null" {
				out.Value = m.Value
			}
		case "isError":
			err = json.Unmarshal(m.Value, &out.Failed)
		case "resultType":
			if string(m.Value) != `"complete"` {
				err = json.Unmarshal(m.Value, &kind)
			}
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the result of %s cannot be read: %w", tool, err)
	}
	if kind != "" && kind != "complete" { // it may have been written with escapes
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s returned a result of type %q, which is not supported yet", tool, kind)
	}
	return out, nil
}

func readContent(raw json.RawMessage) ([]toolroom.Content, error) {
	if pieces, ok := readTexts(raw); ok {
		return pieces, nil
	}
	var pieces []toolroom.Content
	err := json.Unmarshal(raw, &pieces)
	return pieces, err
}

// readTexts reads plain text content, the usual case, in one pass. It returns false
// for any other content.
func readTexts(raw json.RawMessage) ([]toolroom.Content, bool) {
	r := jsonx.NewReader(raw, jsonx.Limits{Bytes: len(raw)})
	if r.Peek() != jsonx.Array {
		r.Abandon()
		return nil, false
	}
	var pieces []toolroom.Content
	r.Enter()
	for r.More() {
		piece, ok := readText(r, raw)
		if !ok {
			r.Abandon()
			return nil, false
		}
		pieces = append(pieces, piece)
	}
	r.Leave()
	return pieces, r.Finish() == nil
}

func readText(r *jsonx.Reader, raw json.RawMessage) (piece toolroom.Content, ok bool) {
	if r.Peek() != jsonx.Object {
		return piece, false
	}
	r.Enter()
	start := r.Offset()
	for r.More() {
		switch string(r.Text()) {
		case "type":
			if r.Peek() != jsonx.String {
				return piece, false
			}
			piece.Type = toolroom.ContentType(r.Text())
		case "text":
			if r.Peek() != jsonx.String {
				return piece, false
			}
			piece.Text = string(r.Text())
		case "annotations", "_meta":
			r.Skip()
		default:
			return piece, false
		}
	}
	r.Leave()
	end := r.Offset()
	if end == 0 || piece.Type != toolroom.ContentText {
		return piece, false
	}
	piece.Raw = raw[start-1 : end : end]
	return piece, true
}
