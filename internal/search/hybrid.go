package search

import (
	"cmp"
	"math"
	"strings"
	"unicode"
)

// SetVectors gives documents the vectors of their texts, each of length 1 and all of one
// dimension. Unknown ids are ignored. A document that is replaced loses its vector.
func (ix *Index) SetVectors(vectors map[string][]float32) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.indexWaiting()
	for id, v := range vectors {
		if slot, ok := ix.slots[id]; ok {
			ix.setVector(slot, v)
		}
	}
}

// ClearVectors takes all vectors away.
func (ix *Index) ClearVectors() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for slot := range ix.vectors {
		ix.setVector(int32(slot), nil)
	}
}

// Vectored returns the number of documents that have a vector, and whether they are enough
// for searches to use them.
func (ix *Index) Vectored() (n int, enough bool) {
	ix.lockForSearch()
	defer ix.mu.RUnlock()
	return ix.vectored, ix.enoughVectors()
}

func (ix *Index) setVector(slot int32, v []float32) {
	if ix.vectors[slot] != nil {
		ix.vectored--
	}
	if v != nil {
		ix.vectored++
	}
	ix.vectors[slot] = v
}

// enoughVectors: with too few, documents would be compared by different measures.
func (ix *Index) enoughVectors() bool { return ix.vectored > 0 && 10*ix.vectored >= 9*len(ix.slots) }

// minCosine is the cosine from which a document without any word of the query is a hit.
// Unrelated sentences have about 0.1.
const minCosine = 0.3

// addCosines scales the scores to 0..1, and adds the cosines, scaled the same and weighted. The
// cosine of a document is that of the part of the query that is nearest to it. A
// document without a vector is taken to mean as much as it says. It returns whether the
// meaning of a document is near that of the query.
func (ix *Index) addCosines(scores []tally, query [][]float32, weight float64) (similar func(int32) bool) {
	if len(query) == 0 || !ix.enoughVectors() {
		return func(int32) bool { return false }
	}
	cosines := make([]float32, len(scores))
	best := 0.0
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for slot, v := range ix.vectors {
		best = max(best, scores[slot].score)
		if len(v) == len(query[0]) {
			c := float32(-1)
			for _, part := range query {
				c = max(c, dot(v, part))
			}
			cosines[slot] = c
			low, high = min(low, c), max(high, c)
		}
	}
	if best == 0 {
		best = 1
	}
	span := max(float64(high-low), 1e-6)
	for slot := range scores {
		t := &scores[slot]
		words := t.score / best
		switch v := ix.vectors[slot]; {
		case len(v) != len(query[0]):
			t.score = words * (1 + weight)
		case words > 0 || cosines[slot] >= minCosine:
			t.score = words + weight*float64(cosines[slot]-low)/span
		}
	}
	return func(slot int32) bool { return cosines[slot] >= minCosine }
}

func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// Bounds on the parts of a query.
const (
	maxParts    = 8
	minPart     = 3       // words; less says too little to be compared
	maxEmbedded = 2 << 10 // bytes of a query that are embedded
)

// Parts returns the sentences of a query, each of which is embedded on its own: a query
// that asks for several things is near none of them as a whole. A short sentence goes with
// the next one.
func Parts(query string) []string {
	var parts []string
	part, words := "", 0
	for _, word := range strings.Fields(truncate(query, maxEmbedded)) {
		part = strings.TrimSpace(part + " " + word)
		words++
		if words >= minPart && strings.ContainsRune(".!?", rune(word[len(word)-1])) && len(parts) < maxParts-1 {
			parts = append(parts, part)
			part, words = "", 0
		}
	}
	switch last := len(parts) - 1; {
	case part == "":
	case words < minPart && last >= 0:
		parts[last] += " " + part
	default:
		parts = append(parts, part)
	}
	return parts
}

// splitName writes a name as its words: createIssue and create_issue as create issue.
func splitName(name string) string {
	var text strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsLetter(r) && unicode.IsLetter(runes[i-1]) && isBoundary(runes, i) {
			text.WriteByte(' ')
		}
		if !isWordRune(r) {
			r = ' '
		}
		text.WriteRune(unicode.ToLower(r))
	}
	return strings.Join(strings.Fields(text.String()), " ")
}

// maxProse is how much of a description is embedded: its beginning, which says what the
// tool is for. More costs more than it tells.
const maxProse = 320 // bytes

// Text returns what is embedded of a document: its name as words, title and description.
func (d Document) Text() string {
	var text strings.Builder
	text.WriteString(splitName(truncate(cmp.Or(d.Name, d.ID), maxText)))
	for _, part := range []string{d.Title, d.Description} {
		part = strings.Join(strings.Fields(truncate(part, maxText)), " ")
		if len(part) > maxProse {
			part = part[:maxProse]
			part = part[:max(strings.LastIndexByte(part, ' '), 0)]
		}
		if part != "" {
			text.WriteString(". " + part)
		}
	}
	return text.String()
}
