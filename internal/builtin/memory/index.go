package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/toolroom/toolroom/internal/embed"
)

// index ranks paragraphs by their words (BM25). It reads a file again when its size or time
// has changed, so that a person may edit the files.
type index struct {
	store   store
	mu      sync.Mutex
	owners  *lru.Cache[string, *ownerIndex]
	vectors embedding
}

// maxOwners is the number of owners whose notes stay indexed in memory.
const maxOwners = 64

// ownerIndex is the index of one owner's notes.
type ownerIndex struct {
	mu    sync.RWMutex      // searches hold it for reading, and for writing if they find changes
	terms map[string]uint32 // the number of each word
	files map[string]*indexedFile
	// dropped counts the words of changed and removed texts. Such words keep their numbers
	// until all notes are indexed again.
	dropped int
	vectors vectorState
}

// maxDropped is the number of dropped words up to which an index is not rebuilt.
const maxDropped = 100_000

// indexedFile is the index of one file: its paragraphs and the words in them. The postings of
// terms[i] are postings[starts[i]:starts[i+1]].
type indexedFile struct {
	size       int64
	changed    time.Time
	paragraphs []paragraph
	words      int // in all paragraphs
	terms      []uint32
	starts     []uint32
	postings   []posting

	// slots are the slots of the paragraphs' vectors in the table. missing is the number of
	// paragraphs without a vector.
	table   *vectorTable
	epoch   int // of the table
	slots   []uint32
	missing int
}

// posting says how often a word occurs in a paragraph. The low bits are the number of the
// paragraph, the high bits the count. A file has fewer paragraphs than MaxNote, in bytes, so
// the bits suffice.
type posting uint32

const (
	paragraphBits = 22
	maxCount      = 1<<(32-paragraphBits) - 1
)

func (p posting) paragraph() int { return int(p & (1<<paragraphBits - 1)) }
func (p posting) count() float64 { return float64(p >> paragraphBits) }

// paragraph is a unit of search.
type paragraph struct {
	text, heading string
	line          int
	length        int // words
	digest        embed.Digest
}

const maxParagraph = 1500 // bytes

// paragraphs splits a Markdown text at empty lines and headings. Long ones are split again,
// with one line of overlap.
func paragraphs(text string) []paragraph {
	var all []paragraph
	var lines []string
	start, heading, size := 0, "", 0
	flush := func(next int) {
		text := strings.TrimSpace(strings.Join(lines, "\n"))
		if text != "" {
			all = append(all, paragraph{text: text, heading: heading, line: start + 1})
		}
		lines, start, size = nil, next, 0
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
			flush(i + 1)
			heading = strings.TrimSpace(strings.TrimLeft(line, "#"))
		case strings.TrimSpace(line) == "":
			flush(i + 1)
		default:
			if size > 0 && size+len(line) > maxParagraph {
				last := lines[len(lines)-1]
				flush(i)
				if len(last) < maxParagraph/2 {
					lines, start, size = []string{last}, i-1, len(last)
				}
			}
			if len(lines) == 0 {
				start = i
			}
			lines = append(lines, line)
			size += len(line)
		}
	}
	flush(0)
	if len(all) == 0 && heading != "" {
		all = append(all, paragraph{text: heading, line: 1})
	}
	return all
}

// words returns the words of a text in a simplified base form.
func words(text string) []string {
	list := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	for i, w := range list {
		for _, ending := range []string{"ing", "ies", "ed", "s"} {
			if base, ok := strings.CutSuffix(w, ending); ok && len(base) >= 4 {
				list[i] = base
				break
			}
		}
		if base, ok := strings.CutSuffix(list[i], "e"); ok && len(base) >= 4 {
			list[i] = base
		}
	}
	return list
}

// ownerIndex returns the index of an owner's notes, which is empty at first.
func (x *index) ownerIndex(owner string) *ownerIndex {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.owners == nil {
		x.owners, _ = lru.New[string, *ownerIndex](maxOwners) // an error is for a size below 1
	}
	l, ok := x.owners.Get(owner)
	if !ok {
		l = &ownerIndex{terms: map[string]uint32{}, files: map[string]*indexedFile{}}
		x.owners.Add(owner, l)
	}
	return l
}

// rlock locks an index for reading, after it has brought it up to date with the files and the
// known vectors.
func (x *index) rlock(l *ownerIndex, owner string, service *embed.Service) error {
	l.mu.RLock()
	notes, err := x.store.list(owner)
	if err == nil && l.upToDate(notes) && (service == nil || l.hasAllVectors(service)) {
		return nil
	}
	l.mu.RUnlock()
	l.mu.Lock()
	err = l.refresh(x.store, owner)
	if err == nil && service != nil && l.count() > 0 {
		x.vectors.update(service, x.store, owner, l)
	}
	l.mu.Unlock()
	if err == nil {
		l.rlockSlots()
	}
	return err
}

// count returns the number of paragraphs.
func (l *ownerIndex) count() (n int) {
	for _, f := range l.files {
		n += len(f.paragraphs)
	}
	return n
}

// upToDate reports whether exactly these notes are indexed.
func (l *ownerIndex) upToDate(notes []note) bool {
	return len(notes) == len(l.files) && !slices.ContainsFunc(notes, func(n note) bool { return !l.files[n.namespace].indexes(n) })
}

// indexes reports whether f is the index of a note in its present state. f may be nil.
func (f *indexedFile) indexes(n note) bool {
	return f != nil && f.size == n.info.Size() && f.changed.Equal(n.info.ModTime())
}

// refresh reads the notes that have changed. It indexes all notes again if about half of the
// words belong to texts that are gone.
func (l *ownerIndex) refresh(s store, owner string) error {
	if l.dropped > len(l.terms)/2+maxDropped {
		l.terms, l.files, l.dropped = map[string]uint32{}, map[string]*indexedFile{}, 0
	}
	notes, err := s.list(owner)
	if err != nil {
		return err
	}
	next := make(map[string]*indexedFile, len(notes))
	for _, n := range notes {
		if f := l.files[n.namespace]; f.indexes(n) {
			next[n.namespace] = f
			continue
		}
		text, err := s.read(owner, n.namespace)
		if err != nil {
			continue // removed meanwhile
		}
		f := l.index(text)
		f.size, f.changed = n.info.Size(), n.info.ModTime()
		next[n.namespace] = f
	}
	for name, f := range l.files {
		if next[name] != f {
			l.dropped += len(f.terms)
			l.vectors.stale = true
		}
	}
	l.files = next
	return nil
}

// index indexes a text.
func (l *ownerIndex) index(text string) *indexedFile {
	f := &indexedFile{paragraphs: paragraphs(text)}
	found := map[uint32][]posting{}
	for i := range f.paragraphs {
		p := &f.paragraphs[i]
		p.digest = embed.DigestOf(p.embeddedText())
		counts := map[uint32]int{}
		for _, w := range words(p.heading + "\n" + p.text) {
			term, known := l.terms[w]
			if !known {
				term = uint32(len(l.terms))
				l.terms[strings.Clone(w)] = term
			}
			counts[term]++
			p.length++
		}
		for term, n := range counts {
			found[term] = append(found[term], posting(i)|posting(min(n, maxCount))<<paragraphBits)
		}
		f.words += p.length
	}
	f.terms = slices.Sorted(maps.Keys(found))
	f.starts = make([]uint32, 1, len(f.terms)+1)
	for _, term := range f.terms {
		f.postings = append(f.postings, found[term]...)
		f.starts = append(f.starts, uint32(len(f.postings)))
	}
	f.postings = slices.Clip(f.postings)
	return f
}

// postingsOf returns the postings of a word.
func (f *indexedFile) postingsOf(term uint32) []posting {
	i, ok := slices.BinarySearch(f.terms, term)
	if !ok {
		return nil
	}
	return f.postings[f.starts[i]:f.starts[i+1]]
}

// hit is a paragraph that a search found.
type hit struct {
	namespace string
	*paragraph
	at     int // its number in the file
	score  float64
	source string
	slot   uint32 // of its vector
}

// hit returns a paragraph of the file.
func (f *indexedFile) hit(name string, at int, score float64) hit {
	h := hit{name, &f.paragraphs[at], at, score, "keyword", noSlot}
	if f.slots != nil {
		h.slot = f.slots[at]
	}
	return h
}

func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.namespace, b.namespace), a.line-b.line)
}

// The usual constants of BM25. A score of halfScore is shown as 0.5.
const (
	bm25K     = 1.2
	bm25B     = 0.75
	halfScore = 3.0
)

// Bounds of a search, which must answer within tens of milliseconds.
const (
	// Among many paragraphs, a word that is in a tenth of them says little. It counts only if
	// the query has no other word.
	manyParagraphs = 10_000
	maxTerms       = 32 // words of a query that count, the rarest
)

// search returns the best paragraphs in a namespace and those below it; an empty one means all.
// It searches by words alone if keywordOnly is set or there is no embedder. If it does so for
// another reason, the note says why.
func (x *index) search(ctx context.Context, owner, query, namespace string, limit int, keywordOnly bool) (found []hit, note string, err error) {
	var service *embed.Service
	if x.vectors.service != nil && !keywordOnly {
		service = x.vectors.service()
	}
	var vector []float32
	reason := ""
	asked := make(chan struct{})
	go func() { // beside the search by words
		defer close(asked)
		if service != nil {
			vector, reason = service.Query(ctx, query)
		}
	}()
	l := x.ownerIndex(owner)
	if err := x.rlock(l, owner, service); err != nil {
		return nil, "", err
	}
	defer l.mu.RUnlock()
	count, some := l.count(), false
	for name := range l.files {
		some = some || inside(name, namespace)
	}
	if !some && namespace != "" {
		return nil, fmt.Sprintf("nothing is remembered in %s or below it; list the namespaces: memory:list", namespace), nil
	}
	files, scores := l.files, l.score(query, count)
	if service == nil || count == 0 {
		return l.best(namespace, scores, limit), "", nil
	}
	l.mu.RUnlock()
	<-asked
	l.rlockSlots()
	// Meanwhile another search may have found other files, or another embedder.
	if !maps.Equal(files, l.files) {
		count = l.count()
		scores = l.score(query, count)
	}
	switch {
	case vector == nil:
		return l.best(namespace, scores, limit), "searched by words alone: " + reason, nil
	case !l.hasMostVectors(service, count) || len(vector) != l.vectors.table.dims:
		return l.best(namespace, scores, limit), "searched by words alone: the notes are still being embedded", nil
	}
	hits := l.byMeaning(namespace, scores, vector, count)
	addMeaning(hits, l.vectors.table, vector)
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.score <= 0 })
	slices.SortFunc(hits, compareHits)
	return hits[:min(len(hits), limit)], "", nil
}

func inside(name, namespace string) bool {
	return namespace == "" || name == namespace || strings.HasPrefix(name, namespace+"/")
}

// all returns the paragraphs of a namespace with their scores. If scores is nil, all are 0.
func (l *ownerIndex) all(namespace string, scores map[string][]float64) []hit {
	var hits []hit
	for name, f := range l.files {
		if !inside(name, namespace) {
			continue
		}
		for i := range f.paragraphs {
			h := f.hit(name, i, 0)
			if s := scores[name]; s != nil {
				h.score = s[i]
			}
			hits = append(hits, h)
		}
	}
	return hits
}

// best returns the best paragraphs of a namespace by their words.
func (l *ownerIndex) best(namespace string, scores map[string][]float64, limit int) []hit {
	var hits []hit
	for name, scores := range scores {
		if !inside(name, namespace) {
			continue
		}
		for i, score := range scores {
			if score <= 0 || len(hits) == limit && score < hits[limit-1].score {
				continue
			}
			h := l.files[name].hit(name, i, score)
			at, _ := slices.BinarySearchFunc(hits, h, compareHits)
			hits = slices.Insert(hits, at, h)
			hits = hits[:min(len(hits), limit)]
		}
	}
	return hits
}

// score returns, for each file that has a word of the query, the scores of its paragraphs, from
// 0 to 1.
func (l *ownerIndex) score(query string, count int) map[string][]float64 {
	type asked struct {
		term uint32
		in   int // paragraphs
	}
	var terms []asked
	total := 0
	for _, w := range slices.Compact(slices.Sorted(slices.Values(words(query)))) {
		if term, ok := l.terms[w]; ok {
			terms = append(terms, asked{term: term})
		}
	}
	for _, f := range l.files {
		total += f.words
		for i := range terms {
			terms[i].in += len(f.postingsOf(terms[i].term))
		}
	}
	terms = slices.DeleteFunc(terms, func(t asked) bool { return t.in == 0 })
	slices.SortFunc(terms, func(a, b asked) int { return cmp.Or(a.in-b.in, int(a.term)-int(b.term)) })
	if i := slices.IndexFunc(terms, func(t asked) bool { return count > manyParagraphs && t.in > count/10 }); i > 0 {
		terms = terms[:i]
	} else if i == 0 {
		terms = terms[:1]
	}
	terms = terms[:min(len(terms), maxTerms)]
	scores := map[string][]float64{}
	perLength := float64(count) / float64(max(total, 1))
	for name, f := range l.files {
		var of []float64
		for _, t := range terms {
			rarity := math.Log(1 + (float64(count)-float64(t.in)+0.5)/(float64(t.in)+0.5))
			for _, p := range f.postingsOf(t.term) {
				if of == nil {
					of = make([]float64, len(f.paragraphs))
					scores[name] = of
				}
				i, n := p.paragraph(), p.count()
				of[i] += rarity * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*float64(f.paragraphs[i].length)*perLength))
			}
		}
		for i, s := range of {
			of[i] = s / (s + halfScore)
		}
	}
	return scores
}
