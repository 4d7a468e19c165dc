package search

import (
	"slices"
	"strings"
)

// Bounds on one query. What an agent pastes beyond them is not read.
const (
	maxQuery       = 8 << 10 // bytes
	maxTerms       = 64      // different words
	maxPhraseWords = 256     // words among which phrases are sought
	maxUnknown     = 8       // words for which near terms are sought
)

// A query is a text reduced to what is searched.
type query struct {
	text  string
	words []queryWord
	// allWords are all words in their order, without those of values.
	allWords []string
	// asksForChange is whether a word says that something is to be changed.
	asksForChange bool
}

type queryWord struct {
	word string // as asked, in lower case
	term string // its stem
	// weight is how much it counts: 1 unless it is of a value.
	weight float64
}

func parse(text string) query {
	q := query{text: strings.TrimSpace(truncate(text, maxQuery))}
	said, named, kinds := splitValues(q.text)
	seen := make(map[string]bool)
	q.allWords = splitWords(said)
	q.allWords = q.allWords[:min(len(q.allWords), maxPhraseWords)]
	q.addWords(q.allWords, askingWords, seen, 1)
	if len(q.allWords) > 0 && questions[q.allWords[0]] {
		q.asksForChange = false
	}
	q.addWords(splitWords(named), nil, seen, valueWeight)
	q.addWords(kinds, nil, seen, kindWeight)
	if len(q.words) == 0 {
		q.addWords(splitWords(q.text), nil, seen, 1)
	}
	return q
}

// addWords keeps each term once: how often a word is said does not tell how much
// it matters.
func (q *query) addWords(words []string, except, seen map[string]bool, weight float64) {
	for _, word := range words {
		term := stem(word)
		if len(q.words) == maxTerms {
			return
		}
		if functionWords[word] || except[word] || seen[term] {
			continue
		}
		seen[term] = true
		q.words = append(q.words, queryWord{word, term, weight})
		// "what was changed" asks for no change.
		q.asksForChange = q.asksForChange || weight == 1 && changing[term] && !strings.HasSuffix(word, "ed")
	}
}

// phrases returns the two or three words that follow each other, with determiners and
// without: "look in the file" has look in, look in the, in the, in the file, the file, look in
// file and in file.
func phrases(q query) [][]string {
	all := appendPhrases(nil, q.allWords)
	bare := slices.DeleteFunc(slices.Clone(q.allWords), func(w string) bool { return determiners[w] })
	if len(bare) < len(q.allWords) {
		all = appendPhrases(all, bare)
	}
	return all
}

func appendPhrases(all [][]string, words []string) [][]string {
	for i := range words {
		for n := 2; n <= maxPhrase && i+n <= len(words); n++ {
			all = append(all, words[i:i+n])
		}
	}
	return all
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
	phraseWeight  = 0.7
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
			cs = append(cs, clause{w.word, t.postings, w.weight})
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
	if len(v.initials[phraseMark]) > 0 {
		for _, p := range phrases(q) {
			if t, ok := v.terms[phraseTerm(p)]; ok {
				add(strings.Join(p, " "), t, phraseWeight)
			}
		}
	}
	sought := 0
	for _, w := range q.words {
		if _, ok := v.terms[w.term]; ok || sought == maxUnknown {
			continue
		}
		sought++
		for _, n := range v.near(w.term) {
			add(w.word, n.term, w.weight*nearWeight/float64(n.errors))
		}
	}
	for _, w := range q.words {
		for _, text := range synonyms[w.term] {
			if t, ok := v.terms[text]; ok {
				add(w.word, t, w.weight*synonymWeight)
			}
		}
		for _, text := range tradeSynonyms[w.term] {
			if t, ok := v.terms[text]; ok {
				add(w.word, t, w.weight*tradeWeight)
			}
		}
	}
	return cs
}
