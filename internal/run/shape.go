package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/panics"
)

// maxBinaryContent is the largest image, audio or resource blob that stays in a
// result; a larger one becomes an artifact.
const maxBinaryContent = 4 << 20

// shape truncates the result and stores the whole under a handle, also for a failed call. It
// returns the error of the call, shortened. If the result cannot be stored, it is truncated
// without a handle and says so; the call does not fail, because the tool has run. A replayed
// result has already been shaped.
func (o *outcome) shape(failed error) error {
	if o.replayed != nil {
		return failed
	}
	if err := o.catchPanic(toolroom.PhaseShape, func() { failed = o.shapeResult(failed) }); err != nil {
		o.result.Result = toolroom.Result{Usage: o.result.Usage} // it may hold secrets, and be of any length
		return err
	}
	return failed
}

// shapeResult redacts and then truncates the result: after truncation, half a secret would not
// be recognised.
func (o *outcome) shapeResult(failed error) error {
	o.result.redact(o.runner.Secrets)
	limit := cmp.Or(o.request.MaxOutput, o.runner.Limits().OutputBytes)
	if failed != nil {
		failed = o.shortenError(failed, limit)
	}
	o.moveLargeContent(limit)
	if limit >= 0 {
		o.truncateResult(limit)
	}
	return failed
}

// truncateResult truncates the text of the result to limit bytes. A value that says more than the
// text is truncated separately.
func (o *outcome) truncateResult(limit int) {
	r := &o.result
	text := r.Text()
	if o.valueRepeatsText(text) {
		switch {
		case !hasText(r.Content) && o.valueIsFromContent(): // the value is in the blobs
		case len(text) > limit:
			shown := o.truncateText("result", text, limit)
			r.Value, r.Raw = quoted(shown.text), nil
			o.setTexts(shown.text)
		case len(r.Value) > limit:
			o.compactValue()
		}
		return
	}
	shown := shownText{text: text}
	if len(text) > limit {
		shown = o.truncateText("result", text, limit)
		r.Raw = nil
		o.setTexts(shown.text)
	}
	if len(r.Value) > limit {
		o.truncateValue(text, shown, limit)
	}
}

// setTexts replaces the text contents of the result.
func (o *outcome) setTexts(texts ...string) {
	var content []toolroom.Content
	for _, text := range texts {
		content = append(content, toolroom.TextContent(text))
	}
	for _, c := range o.result.Content {
		if c.Type != toolroom.ContentText {
			content = append(content, c)
		}
	}
	o.result.Content = content
}

// valueRepeatsText reports whether the value says no more than the content.
func (o *outcome) valueRepeatsText(text string) bool {
	return o.valueIsFromContent() || len(o.result.Content) == 0 || sameJSON(text, o.result.Value)
}

// valueIsFromContent reports whether normalise made the value from the content.
func (o *outcome) valueIsFromContent() bool { return o.output() == nil || len(o.output().Value) == 0 }

func hasText(content []toolroom.Content) bool {
	return slices.ContainsFunc(content, func(c toolroom.Content) bool { return c.Type == toolroom.ContentText })
}

// compactValue removes white space from the value.
func (o *outcome) compactValue() {
	var compact bytes.Buffer
	if json.Compact(&compact, o.result.Value) == nil && compact.Len() < len(o.result.Value) {
		o.result.Value, o.result.Raw = compact.Bytes(), nil
	}
}

// sameJSON reports whether text says no more than the value: the text is the value, or its
// JSON apart from white space, or the only member of an object. Servers that repeat their
// text as structured content send the last.
func sameJSON(text string, value json.RawMessage) bool {
	switch value[0] {
	case '"':
		var s string
		return json.Unmarshal(value, &s) == nil && s == text
	case '{':
		var only map[string]json.RawMessage
		if json.Unmarshal(value, &only) == nil && len(only) == 1 {
			for _, member := range only {
				if member[0] == '"' && sameJSON(text, member) {
					return true
				}
			}
		}
	}
	var a, b bytes.Buffer
	return json.Compact(&a, []byte(text)) == nil && json.Compact(&b, value) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}

func quoted(text string) json.RawMessage {
	value, err := jsonx.Marshal(text)
	if err != nil { // a string can always be written
		return nil
	}
	return value
}

// moveLargeContent replaces large blobs, and the long texts of other contents than text, by links
// to artifacts. A negative limit moves blobs only.
func (o *outcome) moveLargeContent(limit int) {
	copied := false
	for i, c := range o.result.Content {
		data := c.Data
		switch {
		case len(data) > maxBinaryContent:
		case limit < 0 || c.Type == toolroom.ContentText || len(data) > 0:
			continue
		case len(c.Text) > limit:
			data = []byte(c.Text)
		case len(c.Raw) > max(limit, o.runner.Limits().OutputBytes):
			data = c.Raw
		default:
			continue
		}
		if !copied { // the list may be the source's own, or in the cache
			o.result.Content = append([]toolroom.Content(nil), o.result.Content...)
			copied = true
		}
		o.result.Raw = nil
		stored, err := o.storeArtifact(string(c.Type), c.MIMEType, data, true)
		if err != nil {
			o.result.Content[i] = toolroom.TextContent(fmt.Sprintf("[%s %s of %d bytes is not shown, and was not kept: %v]", c.Type, c.MIMEType, len(data), err))
			continue
		}
		o.result.Content[i] = toolroom.Content{Type: toolroom.ContentResourceLink, URI: "toolroom://artifacts/" + stored.Handle, MIMEType: c.MIMEType}
	}
	if !copied || limit < 0 || !o.valueIsFromContent() {
		return
	}
	// The value repeats the content, and so the blobs as well.
	if value, err := contentValue(o.result.Content); err == nil {
		o.result.Value = value
	}
}

// shortenError limits the length of an error. A longer message becomes the text of the
// result, if the tool returned none, and is truncated like one. A negative limit limits
// nothing.
func (o *outcome) shortenError(err error, limit int) error {
	e := *toolroom.AsError(err)
	if limit >= 0 {
		limit = max(limit, maxFailureText)
	}
	if len(e.Details) > 0 {
		e.Details = showableDetails(e.Details, limit)
	}
	if e.RPC != nil && limit >= 0 {
		shortenRPC(&e, limit)
	}
	if limit < 0 {
		return &e
	}
	if len(o.result.Raw) > 2*limit && len(o.result.Content) == 0 { // the error as it was sent
		o.result.Raw = nil
	}
	if len(e.Message) > limit {
		message := o.runner.Secrets.Text(e.Message)
		if o.at.executed != nil && len(o.result.Value) == 0 && len(o.result.Content) == 0 {
			o.result.Content = []toolroom.Content{toolroom.TextContent(message)}
			o.result.Value, o.result.Raw = quoted(message), nil
		}
		e.Message = catalog.Shorten(message, maxFailureText)
	}
	if len(e.Hint) > limit {
		e.Hint = catalog.Shorten(o.runner.Secrets.Text(e.Hint), maxFailureText)
	}
	if len(e.CLIHint) > limit {
		e.CLIHint = catalog.Shorten(o.runner.Secrets.Text(e.CLIHint), maxFailureText)
	}
	return &e
}

// showableDetails returns a copy of details in which values that are too long are replaced, and
// those that cannot be encoded as JSON: every surface and the store would fail with them.
func showableDetails(details map[string]any, limit int) map[string]any {
	short := maps.Clone(details) // the source may use the map again
	for name, value := range details {
		var text []byte
		var err error
		if panicked := panics.Catch(func() { text, err = jsonx.Marshal(value) }); panicked != nil || err != nil {
			short[name] = "[cannot be written as JSON]"
		} else if limit >= 0 && len(text) > limit {
			short[name] = notShown(len(text))
		}
	}
	return short
}

func notShown(bytes int) string { return fmt.Sprintf("[%d bytes are not shown]", bytes) }

// shortenRPC removes the parts of a JSON-RPC error that are too long.
func shortenRPC(e *toolroom.Error, limit int) {
	short, tooLong := *e.RPC, map[string]any{}
	if text := quoted(short.Message); len(text) > limit {
		short.Message = notShown(len(text))
	}
	if len(short.Data) > limit {
		tooLong["rpc_data"], short.Data = notShown(len(short.Data)), nil
	}
	if len(short.Sent) > limit {
		tooLong["rpc_sent"], short.Sent = notShown(len(short.Sent)), nil
	}
	e.RPC = &short
	if len(tooLong) > 0 {
		maps.Copy(tooLong, e.Details)
		e.Details = tooLong
	}
}

// storeContext returns the context for storing the result. It holds the call's taint labels,
// and does not end with the call.
func (o *outcome) storeContext() context.Context {
	ctx := context.WithoutCancel(o.ctx)
	if o.at.resolved == nil {
		return ctx
	}
	return withScope(ctx, func(s *scope) {
		s.runner, s.labels, s.tally = o.runner, o.scope.labels, &o.tally
		s.tool, s.entry = o.tool, o.at.resolved.entry
	})
}

// storeArtifact stores data as an artifact of the caller and adds it to the result. If whole is
// set and the data is too large, it returns an error; else it may store only the beginning.
func (o *outcome) storeArtifact(name, mimeType string, data []byte, whole bool) (toolroom.Artifact, error) {
	if o.runner.Artifacts == nil {
		return toolroom.Artifact{}, toolroom.Errorf(toolroom.CodeUnsupported, "no artifact store is configured")
	}
	stored, err := o.runner.Artifacts.PutResult(o.storeContext(), identity.Owner(o.request.Identity), name, mimeType, data, whole)
	if err != nil {
		o.runner.Log.Warn("failed to store a result", "call", o.request.ID, "tool", o.tool, "bytes", len(data), "error", err)
		return toolroom.Artifact{}, err
	}
	o.result.Artifacts = append(o.result.Artifacts, stored)
	return stored, nil
}
