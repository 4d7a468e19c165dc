package code

import (
	"encoding/json"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
)

// The forms of what a function prints, as in [Function.Output].
const (
	OutputText  = "text"
	OutputJSON  = "json"
	OutputLines = "lines"
)

// printedLimits bound a printed value, like one that crosses the bridge.
var printedLimits = jsonx.Limits{Bytes: 16 << 20, Depth: 100}

// printedValue returns the value of a function that prints it.
func (h *handler) printedValue() (json.RawMessage, error) {
	text := h.stdout.String()
	switch h.function.Output {
	case OutputJSON:
		if strings.TrimSpace(text) == "" {
			return json.RawMessage("null"), nil
		}
		if _, err := jsonx.Decode([]byte(text), printedLimits); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "what %s printed is not JSON: %w", h.function.Name, err).
				WithHint("print one JSON value and nothing else to stdout; messages belong to stderr; or declare output: text")
		}
		return json.RawMessage(strings.TrimSpace(text)), nil
	case OutputLines:
		if h.line != "" {
			h.emitLines("\n") // the last one
		}
		values := []json.RawMessage{}
		for line := range strings.Lines(text) {
			value, err := lineValue(strings.TrimSuffix(line, "\n"))
			if err != nil {
				return nil, err
			}
			values = append(values, value)
		}
		return json.Marshal(values)
	}
	return json.Marshal(strings.TrimSuffix(text, "\n"))
}

// lineValue returns a line as JSON if it is JSON, and else as text.
func lineValue(line string) (json.RawMessage, error) {
	if _, err := jsonx.Decode([]byte(line), printedLimits); err == nil {
		return json.RawMessage(line), nil
	}
	return json.Marshal(line)
}

// maxLine is the length from which an incomplete line is sent as a chunk of its own.
const maxLine = 1 << 20

// emitLines sends the lines that a function has printed as chunks, if it prints lines.
func (h *handler) emitLines(text string) {
	if h.function.Output != OutputLines {
		return
	}
	h.mu.Lock()
	text = h.line + text
	end := strings.LastIndexByte(text, '\n') + 1
	if len(text)-end > maxLine {
		end = len(text)
	}
	h.line = text[end:]
	h.mu.Unlock()
	for line := range strings.Lines(text[:end]) {
		if value, err := lineValue(strings.TrimSuffix(line, "\n")); err == nil {
			h.request.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: value})
		}
	}
}
