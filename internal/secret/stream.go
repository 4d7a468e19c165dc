package secret

// stream is a text that arrives in parts. It holds what may be the beginning of a value until
// further bytes decide.
type stream struct {
	held []byte
	// covered is how many bytes of held belong to a value whose mark was already written.
	covered int
	// surroundings describes the text that was taken last.
	surroundings surroundings
}

// settledLength returns how many bytes of held are decided.
func (l *stream) settledLength(m *matcher) int {
	if m == nil {
		return len(l.held)
	}
	return m.unsettledFrom(l.held, l.surroundings)
}

// take removes and returns the first n bytes, with the spans to replace. No value that may still
// grow must begin in them.
func (l *stream) take(m *matcher, n int) (text []byte, spans []span) {
	spans = l.spans(m)
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
	text = append(text, l.held[:n]...)
	l.held = append(l.held[:0], l.held[n:]...)
	l.noteEnd(text)
	l.covered = covered
	return text, spans
}

// spans returns the values in held. If the first continues a value that was already taken, it has
// no mark.
func (l *stream) spans(m *matcher) []span {
	var spans []span
	if m != nil {
		spans = m.find(l.held, l.surroundings)
	}
	if l.covered == 0 {
		return spans
	}
	head := span{end: l.covered}
	if len(spans) > 0 && spans[0].start < head.end {
		head.end = max(head.end, spans[0].end)
		spans = spans[1:]
	}
	return append([]span{head}, spans...)
}

// noteEnd records how long the word at the end of the taken text is.
func (l *stream) noteEnd(text []byte) {
	n := 0
	for n < len(text) && isWordChar[text[len(text)-1-n]] {
		n++
	}
	if n == len(text) {
		n += l.surroundings.before
	}
	l.surroundings.before = n
}
