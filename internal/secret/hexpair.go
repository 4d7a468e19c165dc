package secret

// isPairs holds the characters of hex that is written byte by byte or in groups:
// 67:68:70, 67 68 70, 0x67, 0x68, or 6768 7069.
var isPairs = setOf("0123456789abcdefABCDEFxX :,-\t\r\n")

const (
	// minPairs is the length of the shortest value in groups.
	minPairs = 2*MinRedacted + 1
	// stride finds each run of minPairs characters.
	stride = 8
	// maxBetween is the most characters between two groups.
	maxBetween = 4
)

// hexPairs shows the bytes that hex in groups stands for. It is nil for a text
// without.
func hexPairs(text []byte, c around) walk {
	if start, _ := nextPairs(text, 0, c); start == len(text) {
		return nil
	}
	return func(src []byte, yield func(part) bool) {
		for at := 0; ; {
			start, end := nextPairs(src, at, c)
			if start == len(src) || !yieldPairs(src, start, end, yield) {
				return
			}
			at = end
		}
	}
}

// nextPairs is the next run of characters of hex in groups from at on.
func nextPairs(text []byte, at int, c around) (start, end int) {
	for place := at; place < len(text); place += stride {
		// A run that has not been seen has begun less than a stride before.
		if end := place + minPairs - stride; !isPairs[text[place]] || end < len(text) && !(isPairs[text[end]] && isPairs[text[place+2]]) {
			continue
		}
		start, end = place, place
		for start > at && isPairs[text[start-1]] {
			start--
		}
		for end < len(text) && isPairs[text[end]] {
			end++
		}
		if end-start >= minPairs && hasGroups(text[start:end]) {
			return start, end
		}
		place = max(place, end-stride+1)
	}
	if !c.open {
		return len(text), len(text)
	}
	start = len(text) // of a run that may go on
	for start > at && isPairs[text[start-1]] {
		start--
	}
	return start, len(text)
}

// hasGroups reports whether a run has two groups of digits, as dates have, and
// words of letters have not.
func hasGroups(run []byte) bool {
	digits, between := false, false
	for _, c := range run {
		switch digit := hexDigit[c] != noDigit; {
		case digit && between:
			return true
		case digit:
			digits = true
		default:
			between = digits
		}
	}
	return false
}

// yieldPairs yields the bytes of a run, and what keeps apart those that do not
// follow one another.
func yieldPairs(src []byte, start, end int, yield func(part) bool) bool {
	last := start // where the last pair ended
	for at := start; at < end; {
		if hexDigit[src[at]] == noDigit {
			at++
			continue
		}
		if src[at] == '0' && at+1 < end && (src[at+1]|0x20) == 'x' {
			at += 2
			continue
		}
		to := at
		for to < end && hexDigit[src[to]] != noDigit {
			to++
		}
		if at-last > maxBetween && !yield(part{start: at, end: at, out: apart}) {
			return false
		}
		if last == start && (to-at)%2 != 0 {
			at++ // a digit of what stands before
		}
		for ; at+2 <= to; at += 2 {
			if !yield(part{start: at, end: at + 2, out: []byte{hexDigit[src[at]]<<4 | hexDigit[src[at+1]]}}) {
				return false
			}
		}
		if at < to && to < len(src) && !yield(part{start: to, end: to, out: apart}) { // a digit is left over
			return false
		}
		at, last = to, to
	}
	return end == len(src) || yield(part{start: end, end: end, out: apart})
}
