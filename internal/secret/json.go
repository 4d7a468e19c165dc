package secret

// alignJSON changes the spans to replace so that the document stays valid JSON. A span
// within a string is extended to whole escapes. A span that is not within one string becomes
// the smallest value that contains it, and its mark becomes a string.
func alignJSON(doc []byte, spans []span) []span {
	f := aligner{doc: doc, spans: spans}
	var open []int // the beginnings of the enclosing objects and lists
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
			f.alignValue(start, at)
		case '"':
			at = stringEnd(doc, at)
			f.alignString(start, at)
		case ' ', '\t', '\r', '\n', ',', ':':
			at++
		default:
			for at < len(doc) && isScalar(doc[at]) {
				at++
			}
			f.alignValue(start, at)
		}
	}
	f.alignValue(0, len(doc)) // for spans that extend to white space around the document
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

// aligner aligns spans. Its methods are called for every value of a document, inner values
// first.
type aligner struct {
	doc     []byte
	spans   []span // those that end later
	open    []span // those that have ended but are in no value so far
	aligned []span
}

// alignValue replaces the value from start to end if it contains a span that is in no inner
// value.
func (f *aligner) alignValue(start, end int) {
	held := f.takeWithin(start, end)
	if len(held) == 0 {
		return
	}
	for n := len(f.aligned); n > 0 && f.aligned[n-1].start >= start; n-- {
		f.aligned = f.aligned[:n-1]
	}
	f.aligned = append(f.aligned, span{start, end, `"` + held[0].mark + `"`})
}

// alignString aligns the spans in the string from start to end to whole escapes.
func (f *aligner) alignString(start, end int) {
	at := start + 1 // the beginning of a character or escape
	for _, s := range f.takeWithin(start, end) {
		s.start, s.end = max(s.start, start+1), min(s.end, end-1)
		for at < s.start && f.nextChar(at) <= s.start {
			at = f.nextChar(at)
		}
		s.start = at
		for at < s.end {
			at = f.nextChar(at)
		}
		s.end = at
		f.aligned = append(f.aligned, s)
	}
}

// nextChar returns the index of the character or escape after the one at index at.
func (f *aligner) nextChar(at int) int {
	switch {
	case f.doc[at] != '\\':
		return at + 1
	case f.doc[at+1] == 'u':
		return at + len(`\u0000`)
	default:
		return at + 2
	}
}

// takeWithin removes and returns the spans between start and end, in order.
func (f *aligner) takeWithin(start, end int) []span {
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
