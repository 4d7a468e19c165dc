package secret

import (
	"bytes"
	"io"
)

// LineWriter redacts lines and writes them to another writer: JSON documents, one per line
// or as the data of server-sent events. It holds an incomplete line until the line ends or
// until Close. A LineWriter must not be used concurrently.
type LineWriter struct {
	redactor *Redactor
	to       io.Writer
	held     []byte
}

// Lines returns a new LineWriter.
func (m *Redactor) Lines(to io.Writer) *LineWriter { return &LineWriter{redactor: m, to: to} }

// Write writes all complete lines with one call of the underlying writer.
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
	if _, err := w.to.Write(w.redactLines(lines)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Close writes the incomplete last line. It does not close the underlying writer.
func (w *LineWriter) Close() error {
	if len(w.held) == 0 {
		return nil
	}
	last := w.held
	w.held = nil
	_, err := w.to.Write(w.redactLines(last))
	return err
}

// dataPrefix begins a data line of a server-sent event.
var dataPrefix = []byte("data:")

// redactLines redacts each line. It returns text itself if no line has a secret.
func (w *LineWriter) redactLines(text []byte) []byte {
	var out []byte
	for rest, done := text, 0; len(rest) > 0; {
		line := rest
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			line = rest[:n]
		}
		start := done
		if document, ok := bytes.CutPrefix(line, dataPrefix); ok { // so that valid JSON stays valid
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
