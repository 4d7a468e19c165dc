package search

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// A vocabulary holds the terms that occur in an index.
type vocabulary struct {
	terms    map[string]*term
	initials map[rune][]*term // by first rune, in no order
}

type term struct {
	letterShape
	text     string
	at       int       // place among the terms with the same initial
	postings []posting // ordered by slot
}

func (v *vocabulary) intern(text string) *term {
	if t, ok := v.terms[text]; ok {
		return t
	}
	if v.terms == nil {
		v.terms = make(map[string]*term)
		v.initials = make(map[rune][]*term)
	}
	initial := initialOf(text)
	t := &term{letterShape: shapeOf(text), text: text, at: len(v.initials[initial])}
	v.terms[text] = t
	v.initials[initial] = append(v.initials[initial], t)
	return t
}

func (v *vocabulary) remove(t *term) {
	delete(v.terms, t.text)
	initial := initialOf(t.text)
	list := v.initials[initial]
	last := len(list) - 1
	if last == 0 {
		delete(v.initials, initial)
		return
	}
	list[t.at] = list[last]
	list[t.at].at = t.at
	list[last] = nil
	v.initials[initial] = list[:last]
}

func initialOf(word string) rune {
	r, _ := utf8.DecodeRuneInString(word)
	return r
}

// A letterShape tells cheaply that most words are not near another.
type letterShape struct {
	letters uint64 // the set of runes, modulo 64
	length  int    // in runes
}

func shapeOf(word string) letterShape {
	var s letterShape
	for _, r := range word {
		s.letters |= 1 << (r % 64)
		s.length++
	}
	return s
}

// missingLetters counts the letters of t that s has not. A typing error adds one at most.
func (s letterShape) missingLetters(t letterShape) int {
	return bits.OnesCount64(t.letters &^ s.letters)
}

// lengthDifference is the difference in length.
func (s letterShape) lengthDifference(t letterShape) int {
	return max(s.length-t.length, t.length-s.length)
}

const (
	minNear  = 4 // runes; shorter words have too many neighbours
	longNear = 8 // runes from which two typing errors are forgiven
	maxNear  = 3 // neighbours of one word
)

// A neighbour is a term that may be meant by an unknown word.
type neighbour struct {
	*term
	errors           int // typing errors between the two; 1 if one begins with the other
	lengthDifference int // difference in length, to decide between equals
}

// near returns the terms nearest to a word that is not in the vocabulary:
// those within one typing error (two in long words) and those of which it is
// the beginning or which begin it. The first letter must be right: few get it
// wrong, and it spares most of the work and of the false friends.
func (v *vocabulary) near(word string) []neighbour {
	w := unknownWord{text: word, runes: []rune(word), letterShape: shapeOf(word)}
	switch {
	case w.length >= longNear:
		w.maxErrors = 2
	case w.length >= minNear:
		w.maxErrors = 1
	case w.length != 1 || !isDense(w.runes[0]): // a lone character may begin a pair
		return nil
	}
	var found []neighbour
	for _, t := range v.initials[w.runes[0]] {
		if errors, ok := w.errors(t); ok {
			found = append(found, neighbour{t, errors, w.lengthDifference(t.letterShape)})
		}
	}
	slices.SortFunc(found, func(a, b neighbour) int {
		return cmp.Or(a.errors-b.errors, a.lengthDifference-b.lengthDifference, strings.Compare(a.text, b.text))
	})
	return found[:min(len(found), maxNear)]
}

// An unknownWord is a word that is not in the vocabulary.
type unknownWord struct {
	letterShape
	text      string
	runes     []rune
	maxErrors int // typing errors
}

// errors returns the typing errors between w and t, if t is near.
func (w *unknownWord) errors(t *term) (int, bool) {
	missing, added := t.missingLetters(w.letterShape), w.missingLetters(t.letterShape)
	switch {
	case missing > w.maxErrors && added > w.maxErrors: // most terms
		return 0, false
	case missing == 0 && w.length < t.length && strings.HasPrefix(t.text, w.text),
		added == 0 && minNear <= t.length && t.length < w.length && strings.HasPrefix(w.text, t.text):
		return 1, true
	case max(missing, added, w.lengthDifference(t.letterShape)) > w.maxErrors:
		return 0, false
	}
	errors := distance(w.runes, t.text)
	return errors, errors <= w.maxErrors
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that make a from b (optimal string alignment). Neither has more
// than maxWord runes.
func distance(a []rune, b string) int {
	var rows [3][maxWord + 1]int8
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range a {
		above[j+1] = int8(j + 1)
	}
	var i int8
	var last rune
	for _, r := range b {
		row[0] = i + 1
		for j, q := range a {
			replaced := above[j]
			if q != r {
				replaced++
			}
			row[j+1] = min(replaced, above[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && q == last && a[j-1] == r {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
		last = r
		i++
	}
	return int(above[len(a)])
}
