package secret

// stream is a text that comes in parts. It keeps what could be the beginning of a
// value until further bytes decide.
type stream struct {
	held []byte
	// covered is how many bytes of held belong to a value whose mark is written.
	covered int
	// around is what is known of what was taken last.
	around around
}

// settled is how many bytes of what is held can be decided now.
func (l *stream) settled(m *matcher) int {
	if m == nil {
		return len(l.held)
	}
	return m.unsettled(l.held, l.around)
}

// take removes the first n bytes and gives them with the parts to replace. No
// value begins in them and may still grow.
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
	l.took(text)
	l.covered = covered
	return text, spans
}

// spans are the values in what is held; a first one without a mark goes on from
// what was taken.
func (l *stream) spans(m *matcher) []span {
	var spans []span
	if m != nil {
		spans = m.find(l.held, l.around)
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

// took notes how the text ends that was taken.
func (l *stream) took(text []byte) {
	n := 0
	for n < len(text) && isWord[text[len(text)-1-n]] {
		n++
	}
	if n == len(text) {
		n += l.around.before
	}
	l.around.before = n
}
