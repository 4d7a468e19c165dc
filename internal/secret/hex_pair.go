package secret

// isPairChar contains the characters of hex in bytes or groups: 67:68:70, 67 68 70, 0x67,
// 0x68, or 6768 7069.
var isPairChar = byteSet("0123456789abcdefABCDEFxX :,-\t\r\n")

const (
	// minPairs is the length of the shortest value that is written in groups.
	minPairs = 2*MinRedacted + 1
	// stride is the distance of the positions examined. No run of minPairs characters fits
	// between two of them.
	stride = 8
	// maxBetween is the maximum number of characters between two groups.
	maxBetween = 4
)

// hexPairs returns the walk of a view with hex in groups decoded to bytes, or nil if text
// contains none.
func hexPairs(text []byte, c surroundings) walk {
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

// nextPairs returns the next run of characters of hex in groups, from at on.
func nextPairs(text []byte, at int, c surroundings) (start, end int) {
	for place := at; place < len(text); place += stride {
		// A run that has not been found yet began less than a stride before.
		if end := place + minPairs - stride; !isPairChar[text[place]] || end < len(text) && !(isPairChar[text[end]] && isPairChar[text[place+2]]) {
			continue
		}
		start, end = place, place
		for start > at && isPairChar[text[start-1]] {
			start--
		}
		for end < len(text) && isPairChar[text[end]] {
			end++
		}
		if end-start >= minPairs && hasGroups(text[start:end]) {
			return start, end
		}
		place = max(place, end-stride+1)
	}
	if !c.moreFollows {
		return len(text), len(text)
	}
	start = len(text) // the beginning of a run that may continue
	for start > at && isPairChar[text[start-1]] {
		start--
	}
	return start, len(text)
}

// hasGroups reports whether a run has at least two groups of digits. Words do not have them,
// dates do.
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

// yieldPairs yields the bytes of a run, and a separator between bytes that are not
// consecutive.
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
		if at-last > maxBetween && !yield(part{start: at, end: at, out: separator}) {
			return false
		}
		if last == start && (to-at)%2 != 0 {
			at++ // this digit belongs to the text before
		}
		for ; at+2 <= to; at += 2 {
			if !yield(part{start: at, end: at + 2, out: []byte{hexDigit[src[at]]<<4 | hexDigit[src[at+1]]}}) {
				return false
			}
		}
		if at < to && to < len(src) && !yield(part{start: to, end: to, out: separator}) { // a digit is left over
			return false
		}
		at, last = to, to
	}
	return end == len(src) || yield(part{start: end, end: end, out: separator})
}
