package secret

import (
	"bytes"
	"io"
)

// LineWriter redacts lines on their way to another writer: JSON documents, each
// on its line, or in the data of server-sent events. It holds back what follows
// the last line end, until that comes or Close. A LineWriter is for one goroutine
// at a time.
type LineWriter struct {
	redactor *Redactor
	to       io.Writer
	held     []byte
}

// Lines makes a LineWriter.
func (m *Redactor) Lines(to io.Writer) *LineWriter { return &LineWriter{redactor: m, to: to} }

// Write writes the lines that are whole by now with one write to the writer below.
func (w *LineWriter) Write(p []byte) (int, error) {
	end := bytes.LastIndexByte(p, '\n') + 1
	if end == 0 {
		w.held = append(w.held, p...)
		return len(p), nil
	}
	lines := p[:end]
	if len(w.held) > 0 {
		lines = append(w.held, lines...)
	}
	w.held = append([]byte(nil), p[end:]...)
	if _, err := w.to.Write(w.redacted(lines)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes what is held back. It does not close the writer below.
func (w *LineWriter) Close() error {
	if len(w.held) == 0 {
		return nil
	}
	last := w.held
	w.held = nil
	_, err := w.to.Write(w.redacted(last))
	return err
}

// data begins a line of an event.
var data = []byte("data:")

// redacted is text itself when no line of it has a secret.
func (w *LineWriter) redacted(text []byte) []byte {
	var out []byte
	for rest, done := text, 0; len(rest) > 0; {
		line := rest
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			line = rest[:n]
		}
		start := done
		if document, ok := bytes.CutPrefix(line, data); ok { // valid JSON stays so
			start += len(line) - len(document)
			line = document
		}
		end := start + len(line)
		if clean := w.redactor.Redact(line); len(clean) != len(line) || len(line) > 0 && &clean[0] != &line[0] {
			if out == nil {
				out = make([]byte, 0, len(text))
				out = append(out, text[:start]...)
			} else {
				out = append(out, text[done:start]...)
			}
			out = append(out, clean...)
		} else if out != nil {
			out = append(out, text[done:end]...)
		}
		if end < len(text) {
			if out != nil {
				out = append(out, '\n')
			}
			end++
		}
		done, rest = end, text[end:]
	}
	if out == nil {
		return text
	}
	return out
}
