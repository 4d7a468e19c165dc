package secret

import (
	"bytes"
	"errors"
	"io"
)

// Writer redacts a stream and writes it to another writer. It also redacts values that arrive in
// pieces: it holds what may be the beginning of a value until further bytes decide, or until
// Close. A Writer must not be used concurrently.
type Writer struct {
	redactor *Redactor
	to       io.Writer
	stream   stream
	err      error
}

// Writer returns a new Writer. Unlike [Redactor.Redact] it does not keep JSON valid, because a
// stream is not a complete document.
func (m *Redactor) Writer(to io.Writer) *Writer { return &Writer{redactor: m, to: to} }

// Write takes all of p, or returns the error of the underlying writer. After an error it always
// returns that error.
func (w *Writer) Write(p []byte) (int, error) {
	w.stream.held = append(w.stream.held, p...)
	if w.flush(w.stream.settledLength(w.redactor.matcher())); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes the rest. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.flush(len(w.stream.held))
	return w.err
}

// flush writes the first n held bytes, redacted.
func (w *Writer) flush(n int) {
	if n == 0 || w.err != nil {
		return
	}
	_, w.err = w.to.Write(replace(w.stream.take(w.redactor.matcher(), n)))
}

// reader redacts what it reads from another reader.
type reader struct {
	from  io.Reader
	to    *Writer // writes to ready
	ready bytes.Buffer
	buf   []byte
	err   error // of from
}

// Reader returns a reader of the text of from, redacted as by a [Writer]. It is from itself if
// no values are known.
func (m *Redactor) Reader(from io.Reader) io.Reader {
	if m.Empty() {
		return from
	}
	r := &reader{from: from, buf: make([]byte, 32<<10)}
	r.to = m.Writer(&r.ready)
	return r
}

func (r *reader) Read(p []byte) (int, error) {
	for r.ready.Len() == 0 {
		if r.err != nil {
			return 0, r.err
		}
		var n int
		n, r.err = r.from.Read(r.buf)
		_, err := r.to.Write(r.buf[:n])
		if errors.Is(r.err, io.EOF) {
			err = r.to.Close()
		}
		if err != nil {
			return 0, err
		}
	}
	return r.ready.Read(p)
}
