package secret

import "io"

// Writer masks a stream on its way to another writer, also values that arrive
// in pieces. What could be the beginning of a value is held back until it is
// decided or Close. A Writer is for one goroutine at a time.
type Writer struct {
	masker *Masker
	to     io.Writer
	held   []byte
	// covered is how many bytes of held belong to a value whose mark is written.
	covered int
	err     error
}

// Writer makes a Writer. Unlike [Masker.Mask] it knows nothing of JSON: a
// stream has no end to look for.
func (m *Masker) Writer(to io.Writer) *Writer { return &Writer{masker: m, to: to} }

// Write takes all of p or returns the error of the writer below, then and ever
// after.
func (w *Writer) Write(p []byte) (int, error) {
	w.held = append(w.held, p...)
	n := len(w.held)
	if matcher := w.masker.matcher(); matcher != nil {
		n = matcher.unsettled(w.held)
	}
	if w.pass(n); w.err != nil {
		return 0, w.err
	}
	return len(p), nil
}

// Close writes what is held back. It does not close the writer below.
func (w *Writer) Close() error {
	w.pass(len(w.held))
	return w.err
}

// pass writes the first n bytes held, masked. No value begins in them and may
// still grow.
func (w *Writer) pass(n int) {
	if n == 0 || w.err != nil {
		return
	}
	spans := w.spans()
	covered := 0
	for i := range spans {
		if spans[i].start >= n {
			spans = spans[:i]
			break
		}
		if spans[i].end > n {
			covered, spans[i].end = spans[i].end-n, n
		}
	}
	_, w.err = w.to.Write(replace(w.held[:n], spans))
	w.held = append(w.held[:0], w.held[n:]...)
	w.covered = covered
}

// spans are the values in what is held; a first one without a mark goes on from
// what was written.
func (w *Writer) spans() []span {
	var spans []span
	if matcher := w.masker.matcher(); matcher != nil {
		spans = matcher.find(w.held)
	}
	if w.covered == 0 {
		return spans
	}
	head := span{end: w.covered}
	if len(spans) > 0 && spans[0].start < head.end {
		head.end = max(head.end, spans[0].end)
		spans = spans[1:]
	}
	return append([]span{head}, spans...)
}
