package search

import (
	"math"
	"slices"

	"github.com/toolroom/toolroom"
)

// Terms returns the terms of a query under which use is learned: the stems of its words,
// without numbers and long words, which are data.
func Terms(query string) []string {
	var terms []string
	for _, w := range parse(query).words {
		if learnable(w.term) {
			terms = append(terms, w.term)
		}
	}
	return terms
}

func learnable(term string) bool { return !isNumber(term) && len(term) <= maxLearned }

const maxLearned = 32 // bytes of a term

// A word that a tool was used after counts as useGain times its rarity at most; half of that
// if its weight is useHalf. So a weight of 0.5, which is the most that one other caller has,
// counts less than the word in a tool's own description, which counts 1.
const (
	useGain = 3.0
	useHalf = 1.5
)

// addLearned raises the documents that were used after searches with words of the query, and
// returns these words by slot.
func (ix *Index) addLearned(scores []tally, q query, learned func(term string) []Lesson) map[int32][]toolroom.Match {
	if learned == nil {
		return nil
	}
	var why map[int32][]toolroom.Match
	n := float64(len(ix.slots))
	for _, w := range q.words {
		if !learnable(w.term) {
			continue
		}
		lessons := learned(w.term)
		df := float64(len(lessons))
		if t, ok := ix.vocab.terms[w.term]; ok {
			df = max(df, float64(len(t.postings)))
		}
		idf := math.Log(1 + (max(n-df, 0)+0.5)/(df+0.5))
		for _, l := range lessons {
			slots := ix.variants[l.ID]
			if slot, ok := ix.slots[l.ID]; ok {
				slots = append(slices.Clip(slots), slot)
			}
			for _, slot := range slots {
				scores[slot].score += useGain * idf * l.Weight / (l.Weight + useHalf)
				if why == nil {
					why = make(map[int32][]toolroom.Match)
				}
				why[slot] = append(why[slot], toolroom.Match{Term: w.word, Field: FieldUse.String()})
			}
		}
	}
	return why
}
