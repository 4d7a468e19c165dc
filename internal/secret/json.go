package secret

// alignJSON changes the parts to replace so that the document stays valid: within
// a string a part grows to whole escapes; a part that is not within one string
// becomes the smallest value around it, and its mark a string.
func alignJSON(doc []byte, spans []span) []span {
	f := aligner{doc: doc, spans: spans}
	var open []int // where the objects and lists around begin
	for at := 0; at < len(doc); {
		start := at
		switch c := doc[at]; c {
		case '{', '[':
			open = append(open, at)
			at++
		case '}', ']':
			at++
			start = open[len(open)-1]
			open = open[:len(open)-1]
			f.whole(start, at)
		case '"':
			at = stringEnd(doc, at)
			f.text(start, at)
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
		default:
			for at < len(doc) && isScalar(doc[at]) {
				at++
			}
			f.whole(start, at)
		}
	}
	f.whole(0, len(doc)) // for what reaches into white space around the document
	return f.aligned
}

func isScalar(c byte) bool {
	return c == '-' || c == '+' || c == '.' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || c == 'E'
}

func stringEnd(doc []byte, at int) int {
	for at++; doc[at] != '"'; at++ {
		if doc[at] == '\\' {
			at++
		}
	}
	return at + 1
}

// aligner is told of every value, inner ones first.
type aligner struct {
	doc     []byte
	spans   []span // that end later
	open    []span // that ended, and no value so far held
	aligned []span
}

// whole replaces the value from start to end when a part is in it that no inner
// value held.
func (f *aligner) whole(start, end int) {
	held := f.held(start, end)
	if len(held) == 0 {
		return
	}
	for n := len(f.aligned); n > 0 && f.aligned[n-1].start >= start; n-- {
		f.aligned = f.aligned[:n-1]
	}
	f.aligned = append(f.aligned, span{start, end, `"` + held[0].mark + `"`})
}

// text replaces parts of the string from start to end.
func (f *aligner) text(start, end int) {
	at := start + 1 // the beginning of a character or escape
	for _, s := range f.held(start, end) {
		s.start, s.end = max(s.start, start+1), min(s.end, end-1)
		for at < s.start && f.next(at) <= s.start {
			at = f.next(at)
		}
		s.start = at
		for at < s.end {
			at = f.next(at)
		}
		s.end = at
		f.aligned = append(f.aligned, s)
	}
}

// next is where the character or escape after the one at this place begins.
func (f *aligner) next(at int) int {
	switch {
	case f.doc[at] != '\\':
		return at + 1
	case f.doc[at+1] == 'u':
		return at + len(`\u0000`)
	default:
		return at + 2
	}
}

// held takes the parts that lie between start and end, in order.
func (f *aligner) held(start, end int) []span {
	for len(f.spans) > 0 && f.spans[0].end <= end {
		f.open = append(f.open, f.spans[0])
		f.spans = f.spans[1:]
	}
	n := len(f.open)
	for n > 0 && f.open[n-1].start >= start {
		n--
	}
	held := f.open[n:]
	f.open = f.open[:n]
	return held
}
