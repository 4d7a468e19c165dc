package secret

import (
	"bytes"
	"errors"
	"io"
)

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
