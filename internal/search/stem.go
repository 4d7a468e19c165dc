package search

import "strings"

// stem joins the forms of an English word: plurals as Harman's S-stemmer
// (JASIS 42, 1991), -ed, -ing, final y and e as steps 1b, 1c and 5a of Porter's
// (Program 14, 1980). Both err less than Porter's whole stemmer on names:
// status, news, address stay, and general is not generate. Words with anything
// but a to z are returned as they are.
func stem(w string) string {
	if len(w) < 4 || !isLatin(w) {
		return w
	}
	w = unplural(w)
	w = unsuffix(w)
	if last := len(w) - 1; w[last] == 'y' && hasVowel(w[:last]) {
		w = w[:last] + "i"
	}
	if base, ok := strings.CutSuffix(w, "e"); ok {
		if m := measure(base); m > 1 || m == 1 && !isShort(base) {
			return base
		}
	}
	return w
}

func unplural(w string) string {
	switch {
	case w == "news", strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "ies") && len(w) > 4, // queries, query
		strings.HasSuffix(w, "sses"),               // addresses
		strings.HasSuffix(w, "uses") && len(w) > 6: // statuses
		return w[:len(w)-2]
	}
	return strings.TrimSuffix(w, "s")
}

func unsuffix(w string) string {
	base, ok := strings.CutSuffix(w, "ing")
	if !ok {
		base, ok = strings.CutSuffix(w, "ed")
	}
	if !ok || !hasVowel(base) || strings.HasSuffix(w, "eed") {
		return w
	}
	last := len(base) - 1
	switch {
	case strings.HasSuffix(base, "at"), strings.HasSuffix(base, "bl"), strings.HasSuffix(base, "iz"):
		return base + "e" // creat(e), enabl(e), organiz(e)
	case last > 0 && base[last] == base[last-1] && isConsonant(base, last) && !strings.ContainsRune("lsz", rune(base[last])):
		return base[:last] // runn
	case measure(base) == 1 && isShort(base):
		return base + "e" // fil(e)
	}
	return base
}

// measure counts the vowel-consonant sequences of w, Porter's m.
func measure(w string) int {
	m := 0
	for i := 1; i < len(w); i++ {
		if isConsonant(w, i) && !isConsonant(w, i-1) {
			m++
		}
	}
	return m
}

// isShort reports whether w ends consonant, vowel, consonant other than w, x
// or y, Porter's *o.
func isShort(w string) bool {
	n := len(w)
	return n > 2 && isConsonant(w, n-1) && !isConsonant(w, n-2) && isConsonant(w, n-3) &&
		!strings.ContainsRune("wxy", rune(w[n-1]))
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if !isConsonant(w, i) {
			return true
		}
	}
	return false
}

// isConsonant takes y for a vowel after a consonant.
func isConsonant(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return false
	case 'y':
		return i == 0 || !isConsonant(w, i-1)
	}
	return true
}

func isLatin(w string) bool {
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return false
		}
	}
	return true
}
