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
	shape
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
	t := &term{shape: shapeOf(text), text: text, at: len(v.initials[initial])}
	v.terms[text] = t
	v.initials[initial] = append(v.initials[initial], t)
	return t
}

func (v *vocabulary) forget(t *term) {
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

// A shape is what tells at a glance that most words are not near another.
type shape struct {
	letters uint64 // the set of runes, modulo 64
	length  int    // in runes
}

func shapeOf(word string) shape {
	var s shape
	for _, r := range word {
		s.letters |= 1 << (r % 64)
		s.length++
	}
	return s
}

// lacks counts the letters of t that s has not. A typing error adds one at most.
func (s shape) lacks(t shape) int { return bits.OnesCount64(t.letters &^ s.letters) }

// apart is the difference in length.
func (s shape) apart(t shape) int { return max(s.length-t.length, t.length-s.length) }

const (
	minNear  = 4 // runes; shorter words have too many neighbours
	longNear = 8 // runes from which two typing errors are forgiven
	maxNear  = 3 // neighbours of one word
)

// A neighbour is a term that may be meant by an unknown word.
type neighbour struct {
	*term
	errors int // typing errors between the two; 1 if one begins with the other
	apart  int // difference in length, to decide between equals
}

// near returns the terms nearest to a word that is not in the vocabulary:
// those within one typing error (two in long words) and those of which it is
// the beginning or which begin it. The first letter must be right: few get it
// wrong, and it spares most of the work and of the false friends.
func (v *vocabulary) near(word string) []neighbour {
	w := unknown{text: word, runes: []rune(word), shape: shapeOf(word)}
	switch {
	case w.length >= longNear:
		w.forgiven = 2
	case w.length >= minNear:
		w.forgiven = 1
	case w.length != 1 || !isDense(w.runes[0]): // a lone character may begin a pair
		return nil
	}
	var found []neighbour
	for _, t := range v.initials[w.runes[0]] {
		if errors, ok := w.errors(t); ok {
			found = append(found, neighbour{t, errors, w.apart(t.shape)})
		}
	}
	slices.SortFunc(found, func(a, b neighbour) int {
		return cmp.Or(a.errors-b.errors, a.apart-b.apart, strings.Compare(a.text, b.text))
	})
	return found[:min(len(found), maxNear)]
}

// An unknown is a word that is not in the vocabulary.
type unknown struct {
	shape
	text     string
	runes    []rune
	forgiven int // typing errors
}

// errors returns the typing errors between w and t, if t is near.
func (w *unknown) errors(t *term) (int, bool) {
	missing, added := t.lacks(w.shape), w.lacks(t.shape)
	switch {
	case missing > w.forgiven && added > w.forgiven: // most terms
		return 0, false
	case missing == 0 && w.length < t.length && strings.HasPrefix(t.text, w.text),
		added == 0 && minNear <= t.length && t.length < w.length && strings.HasPrefix(w.text, t.text):
		return 1, true
	case max(missing, added, w.apart(t.shape)) > w.forgiven:
		return 0, false
	}
	errors := distance(w.runes, t.text)
	return errors, errors <= w.forgiven
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
