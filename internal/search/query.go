package search

import "strings"

// Bounds on one query. What an agent pastes beyond them is not read.
const (
	maxQuery   = 8 << 10 // bytes
	maxTerms   = 64      // different words
	maxUnknown = 8       // words for which near terms are sought
)

// A query is a text reduced to what is searched.
type query struct {
	text  string
	words []queryWord
	// changes is whether a word says that something is to be changed.
	changes bool
}

type queryWord struct {
	word string // as asked, in lower case
	term string // its stem
}

func parse(text string) query {
	q := query{text: strings.TrimSpace(cut(text, maxQuery))}
	all := words(q.text)
	if q.take(all, askingWords); len(q.words) == 0 {
		q.take(all, nil)
	}
	return q
}

// take keeps each term once: how often a word is said does not tell how much
// it matters.
func (q *query) take(words []string, except map[string]bool) {
	seen := make(map[string]bool)
	for _, word := range words {
		term := stem(word)
		if functionWords[word] || except[word] || seen[term] {
			continue
		}
		seen[term] = true
		q.words = append(q.words, queryWord{word, term})
		q.changes = q.changes || changing[term]
		if len(q.words) == maxTerms {
			return
		}
	}
}

// A clause is a term to be scored on behalf of a word of the query.
type clause struct {
	word     string
	postings []posting
	weight   float64
}

const (
	nearWeight    = 0.5 // of a neighbour one typing error away
	synonymWeight = 0.25
	tradeWeight   = 0.8 // of a synonym in the language of a trade
	// A number decides between tools that fit alike. Most numbers in a query are
	// values, so that it does no more.
	numberWeight = 0.05
)

// clauses looks the words of a query up. Each word stands for itself, or, if
// it is unknown, for its neighbours; and for its synonyms.
func (v *vocabulary) clauses(q query) []clause {
	var cs []clause
	used := make(map[string]bool, 2*len(q.words))
	for _, w := range q.words {
		used[w.term] = true
		if t, ok := v.terms[w.term]; ok {
			cs = append(cs, clause{w.word, t.postings, 1})
		}
	}
	add := func(word string, t *term, weight float64) {
		if !used[t.text] {
			used[t.text] = true
			cs = append(cs, clause{word, t.postings, weight})
		}
	}
	for _, w := range q.words {
		if t, ok := v.terms[numberTerm(w.word)]; ok && isNumber(w.word) {
			add(w.word, t, numberWeight)
		}
	}
	sought := 0
	for _, w := range q.words {
		if _, ok := v.terms[w.term]; ok || sought == maxUnknown {
			continue
		}
		sought++
		for _, n := range v.near(w.term) {
			add(w.word, n.term, nearWeight/float64(n.errors))
		}
	}
	for _, w := range q.words {
		for _, text := range synonyms[w.term] {
			if t, ok := v.terms[text]; ok {
				add(w.word, t, synonymWeight)
			}
		}
		for _, text := range tradeSynonyms[w.term] {
			if t, ok := v.terms[text]; ok {
				add(w.word, t, tradeWeight)
			}
		}
	}
	return cs
}
