package secret

import "io"

// Writer redacts a stream on its way to another writer, also values that arrive
// in pieces. What could be the beginning of a value is held back until it is
// decided or Close. A Writer is for one goroutine at a time.
type Writer struct {
	redactor *Redactor
	to       io.Writer
	stream   stream
	err      error
}

// Writer makes a Writer. Unlike [Redactor.Redact] it knows nothing of JSON: a
// stream has no end to look for.
func (m *Redactor) Writer(to io.Writer) *Writer { return &Writer{redactor: m, to: to} }

// Write takes all of p or returns the error of the writer below, then and ever
// after.
func (w *Writer) Write(p []byte) (int, error) {
	w.stream.held = append(w.stream.held, p...)
	if w.pass(w.stream.settled(w.redactor.matcher())); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes what is held back. It does not close the writer below.
func (w *Writer) Close() error {
	w.pass(len(w.stream.held))
	return w.err
}

// pass writes the first n bytes held, redacted.
func (w *Writer) pass(n int) {
	if n == 0 || w.err != nil {
		return
	}
	_, w.err = w.to.Write(replace(w.stream.take(w.redactor.matcher(), n)))
}
