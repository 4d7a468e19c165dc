package search

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Options narrow a search. The zero value asks for the ten best.
type Options struct {
	// Limit is the greatest number of hits. Default 10.
	Limit int
	// Filter, if not nil, says whether the document with this key may be a hit: its
	// ID, and @ with its variant. It is asked only for documents that rank high
	// enough, and must not call the index. Without it variants are no hits.
	Filter func(key string) bool
	// Vectors, if any, are those of the query's [Parts], from the embedder whose vectors
	// the index has; see [Index.SetVectors]. Weight is how much their cosines count
	// beside words, which count 1.
	Vectors [][]float32
	Weight  float64
	// Learned, if not nil, says which documents a term raises. It is called for
	// each term of the query (see [Terms]) and must not call the index.
	Learned func(term string) []Lesson
}

// A Lesson is that a document was used after searches with a term.
type Lesson struct {
	ID     string
	Weight float64 // above 0; twice the uses are about twice the weight
}

// A Hit is a document that matches a query.
type Hit struct {
	ID    string           `json:"id"`    // with @ and the variant, if there is one
	Score float64          `json:"score"` // comparable within one search only
	Why   []toolroom.Match `json:"why"`
}

// Search returns the documents that best match the query, highest score first,
// equal scores by id. Of documents that match almost alike those come first that change
// nothing, unless the query asks for a change. A document whose id or name is the query comes before
// all others. The result is nil if nothing matches, as for an empty query. Of
// a query only the first 8 KiB and 64 different words count.
func (ix *Index) Search(query string, opts Options) []Hit {
	q := parse(query)
	if q.text == "" {
		return nil
	}
	ix.lockForSearch()
	defer ix.mu.RUnlock()
	clauses := ix.vocab.clauses(q)
	scores := ix.borrowScores()
	defer ix.returnScores(scores)
	ix.score(*scores, q, clauses)
	lessons := ix.addLearned(*scores, q, opts.Learned)
	similar := ix.addCosines(*scores, opts.Vectors, opts.Weight)
	exact := ix.exactMatches(q.text)
	ix.applyFactors(*scores, q)
	for _, m := range exact {
		(*scores)[m.slot].score += m.bonus
	}

	top := newRanking(ix.docs, opts)
	for slot, t := range *scores {
		if t.score > 0 {
			top.offer(candidate{int32(slot), t.score})
		}
	}
	var hits []Hit
	for _, c := range top.best() {
		reasons := why(c.slot, q, clauses, exact)
		reasons = append(reasons, lessons[c.slot]...)
		if similar(c.slot) {
			reasons = append(reasons, toolroom.Match{Term: q.text, Field: FieldMeaning.String()})
		}
		hits = append(hits, Hit{ix.docs[c.slot].key, c.score, reasons})
	}
	return hits
}

// score adds the BM25 score of each clause to the documents that hold it, with
// the idf of Lucene, which is never negative.
//
// Keywords guess what a word of users means. If a source without keywords has that word as
// its name ("find it in my notes", with a source notes), they count nothing, and the others
// of that query less.
func (ix *Index) score(scores []tally, q query, clauses []clause) {
	// k1 is customary. b is lower than the customary 0.75, for a tool with many
	// parameters is not about less; quality is flat from 0.2 to 0.5.
	const k1, b = 1.2, 0.4
	owned := ix.namedSources(q, func(source string) bool { return ix.sources[source] > 0 && ix.guessing[source] == 0 })
	n := float64(len(ix.slots))
	constant, perLength := k1*(1-b), k1*b*n/ix.total
	for _, c := range clauses {
		df := float64(len(c.postings))
		claimed := slices.ContainsFunc(splitWords(c.word), func(w string) bool { return slices.Contains(owned, w) })
		gain := c.weight * (k1 + 1) * math.Log(1+(n-df+0.5)/(df+0.5))
		for _, p := range c.postings {
			tf := float64(p.weight)
			if len(owned) > 0 && p.fields.has(FieldTag) && ix.traits[p.slot].keywords {
				tf -= float64(tagSection.weight) * keywordDoubt
				if claimed {
					tf -= float64(tagSection.weight) * (1 - keywordDoubt)
				}
			}
			if tf <= 0 {
				continue
			}
			t := &scores[p.slot]
			t.score += gain * tf / (tf + constant + perLength*float64(ix.lengths[p.slot]))
			if c.weight == 1 && p.fields.has(FieldName) {
				t.names++
			}
		}
	}
}

// A tally is the score of a document, and how many words of its name are in the
// query.
type tally struct {
	score float64
	names float32
}

// Factors that decide between tools that fit alike. Measured with package bench: they
// leave its sets as they are.
const (
	wholeName    = 1.02 // all words of a name are in the query
	readOnly     = 1.1  // and nobody asked for a change
	ownSource    = 1.4  // the query names the source
	destructive  = 0.9
	keywordDoubt = 0.5 // of keywords, if the query names a source without any
	// keywordFactor is that of a tool with keywords: more words of a query meet it than one that
	// only says what it does. Measured with MetaTool and BFCL beside the built-in tools.
	keywordFactor = 0.6
)

func (d Document) rankFactor() float32 {
	switch {
	case d.Destructive:
		return destructive
	case d.ReadOnly:
		return readOnly
	default:
		return 1
	}
}

// namedSources returns the sources that a query names.
func (ix *Index) namedSources(q query, is func(source string) bool) []string {
	var named []string
	for _, w := range q.words {
		if w.weight == 1 && is(w.word) {
			named = append(named, w.word)
		}
	}
	return named
}

// applyFactors applies the factors.
func (ix *Index) applyFactors(scores []tally, q query) {
	named := ix.namedSources(q, func(source string) bool { return ix.sources[source] > 0 })
	for slot := range scores {
		t := &scores[slot]
		if t.score == 0 {
			continue
		}
		trait := &ix.traits[slot]
		if trait.names > 1 && t.names >= trait.names {
			t.score *= wholeName
		}
		if trait.keywords {
			t.score *= keywordFactor
		}
		if !q.asksForChange {
			t.score *= float64(trait.factor)
		}
		for _, source := range named {
			if trait.namespace == source {
				t.score *= ownSource
			}
		}
	}
}

// Bonuses of exact matches. Each is more than any BM25 score, which 64 words
// with their neighbours and synonyms keep under 10,000.
const (
	idBonus       = 30_000 // the id itself
	nameBonus     = 20_000 // the name itself
	spellingBonus = 10_000 // id, name or title in another spelling
)

type exactMatch struct {
	slot  int32
	field Field
	bonus float64
}

func (ix *Index) exactMatches(text string) []exactMatch {
	var found []exactMatch
	form := normalizedName(text)
	for _, slot := range ix.spellings[form] {
		d := &ix.docs[slot]
		m := exactMatch{slot, FieldName, spellingBonus}
		switch {
		case d.id == text:
			m.field, m.bonus = FieldID, idBonus
		case d.name == text:
			m.bonus = nameBonus
		case normalizedName(d.id) == form:
			m.field = FieldID
		}
		found = append(found, m)
	}
	return found
}

func why(slot int32, q query, clauses []clause, exact []exactMatch) []toolroom.Match {
	var matches []toolroom.Match
	for _, m := range exact {
		if m.slot == slot {
			matches = append(matches, toolroom.Match{Term: q.text, Field: m.field.String()})
		}
	}
	for _, c := range clauses {
		at, ok := slices.BinarySearchFunc(c.postings, slot, bySlot)
		if !ok {
			continue
		}
		for f := range fieldCount {
			if m := (toolroom.Match{Term: c.word, Field: f.String()}); c.postings[at].fields.has(f) && !slices.Contains(matches, m) {
				matches = append(matches, m)
			}
		}
	}
	return matches
}

func (ix *Index) borrowScores() *[]tally {
	scores, _ := ix.scores.Get().(*[]tally)
	if scores == nil {
		scores = new([]tally)
	}
	*scores = slices.Grow(*scores, len(ix.docs))[:len(ix.docs)]
	return scores
}

func (ix *Index) returnScores(scores *[]tally) {
	clear(*scores)
	*scores = (*scores)[:0]
	ix.scores.Put(scores)
}

type candidate struct {
	slot  int32
	score float64
}

// A ranking keeps the best candidates: it gathers a few more than asked for,
// then sorts and forgets the rest.
type ranking struct {
	docs   []indexed
	limit  int
	filter func(key string) bool
	kept   []candidate
	floor  float64 // score below which a candidate has no chance
}

func newRanking(docs []indexed, opts Options) *ranking {
	limit := opts.Limit
	if limit <= 0 {
		limit = 10
	}
	return &ranking{docs: docs, limit: min(limit, len(docs)), filter: opts.Filter}
}

func (r *ranking) offer(c candidate) {
	d := &r.docs[c.slot]
	if c.score < r.floor || r.filter == nil && d.key != d.id || r.filter != nil && !r.filter(d.key) {
		return
	}
	r.kept = append(r.kept, c)
	if len(r.kept) >= 2*r.limit+16 {
		r.kept = r.best()
		r.floor = r.kept[len(r.kept)-1].score
	}
}

func (r *ranking) best() []candidate {
	slices.SortFunc(r.kept, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(r.docs[a.slot].key, r.docs[b.slot].key))
	})
	return r.kept[:min(len(r.kept), r.limit)]
}
