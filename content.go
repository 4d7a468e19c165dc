package toolroom

import (
	"encoding/json"
	"strings"
)

// ContentType is the type of a [Content].
type ContentType string

// The content types, named as in MCP.
const (
	ContentText         ContentType = "text"
	ContentImage        ContentType = "image"
	ContentAudio        ContentType = "audio"
	ContentResource     ContentType = "resource"
	ContentResourceLink ContentType = "resource_link"
)

// Content is one part of a result for people and models.
type Content struct {
	Type ContentType `json:"type"`
	// Text is the text of a text part or of a text resource.
	Text string `json:"text,omitempty"`
	// Data are the bytes of an image, a sound or a resource; base64 in JSON.
	Data     []byte `json:"data,omitempty"`
	MIMEType string `json:"mimeType,omitempty"`
	// URI is the URI of a resource or of a linked resource.
	URI string `json:"uri,omitempty"`

	// Raw is the part as its source sent it. If it is set, MarshalJSON writes it, so that
	// types and fields that Toolroom does not know reach the client.
	Raw json.RawMessage `json:"-"`
}

// TextContent returns a text part.
func TextContent(text string) Content { return Content{Type: ContentText, Text: text} }

// MarshalJSON encodes the content in the form that MCP defines.
func (c Content) MarshalJSON() ([]byte, error) {
	if len(c.Raw) > 0 {
		return c.Raw, nil
	}
	switch c.Type {
	case ContentText:
		// The field is required, even if the text is empty.
		return json.Marshal(struct {
			Type ContentType `json:"type"`
			Text string      `json:"text"`
		}{c.Type, c.Text})
	case ContentResource:
		return json.Marshal(struct {
			Type     ContentType     `json:"type"`
			Resource resourceContent `json:"resource"`
		}{c.Type, resourceContent{c.URI, c.MIMEType, c.Text, c.Data}})
	default:
		type plain Content
		return json.Marshal(plain(c))
	}
}

// UnmarshalJSON decodes MCP content and keeps the original in Raw.
func (c *Content) UnmarshalJSON(data []byte) error {
	var kind struct {
		Type ContentType `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return err
	}
	read := Content{Type: kind.Type}
	switch kind.Type {
	case ContentResource:
		var wire struct {
			Resource resourceContent `json:"resource"`
		}
		if err := json.Unmarshal(data, &wire); err != nil {
			return err
		}
		r := wire.Resource
		read.URI, read.MIMEType, read.Text, read.Data = r.URI, r.MIMEType, r.Text, r.Blob
	case ContentText, ContentImage, ContentAudio, ContentResourceLink:
		type plain Content
		if err := json.Unmarshal(data, (*plain)(&read)); err != nil {
			return err
		}
	default:
		// The fields of an unknown type may mean anything, so they are not read.
	}
	read.Raw = append(json.RawMessage(nil), data...)
	*c = read
	return nil
}

type resourceContent struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType,omitempty"`
	Text     string `json:"text,omitempty"`
	Blob     []byte `json:"blob,omitempty"`
}

func joinText(content []Content) (string, bool) {
	var b strings.Builder
	found := false
	for _, c := range content {
		if c.Type != ContentText {
			continue
		}
		if found {
			b.WriteByte('\n')
		}
		b.WriteString(c.Text)
		found = true
	}
	return b.String(), found
}

func valueText(value json.RawMessage) string {
	if len(value) == 0 || value[0] != '"' {
		return string(value)
	}
	var s string
	if json.Unmarshal(value, &s) != nil {
		return string(value)
	}
	return s
}
