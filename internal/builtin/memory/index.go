package memory

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/toolroom/toolroom/internal/embed"
)

// index ranks paragraphs by their words (BM25). It reads a file again when its size or time
// has changed, so that a person may edit the files.
type index struct {
	store store
	mu    sync.Mutex
	files map[string]map[string]*indexed // by owner and namespace

	vectors vectors
}

type indexed struct {
	size       int64
	changed    time.Time
	paragraphs []paragraph
}

// paragraph is a unit of search.
type paragraph struct {
	text, heading string
	line          int
	words         map[string]int
	length        int
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
			p := paragraph{text: text, heading: heading, line: start + 1, words: map[string]int{}}
			for _, w := range words(heading + "\n" + text) {
				p.words[w]++
				p.length++
			}
			all = append(all, p)
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
		all = append(all, paragraph{text: heading, heading: heading, line: 1, words: map[string]int{}, length: 1})
		for _, w := range words(heading) {
			all[0].words[w]++
		}
	}
	return all
}

// words returns the words of a text in a simple base form.
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

// of returns the indexed namespaces of an owner, after reading what has changed.
func (x *index) of(owner string) (map[string]*indexed, error) {
	notes, err := x.store.list(owner)
	if err != nil {
		return nil, err
	}
	if x.files == nil {
		x.files = map[string]map[string]*indexed{}
	}
	old, next := x.files[owner], map[string]*indexed{}
	for _, n := range notes {
		if f := old[n.namespace]; f != nil && f.size == n.info.Size() && f.changed.Equal(n.info.ModTime()) {
			next[n.namespace] = f
			continue
		}
		text, err := x.store.read(owner, n.namespace)
		if err != nil {
			continue // removed meanwhile
		}
		next[n.namespace] = &indexed{n.info.Size(), n.info.ModTime(), paragraphs(text)}
	}
	x.files[owner] = next
	return next, nil
}

// hit is a paragraph that was found.
type hit struct {
	namespace string
	paragraph
	score  float64
	source string
}

// The usual constants of BM25. A score of halfScore is shown as 0.5.
const (
	bm25K     = 1.2
	bm25B     = 0.75
	halfScore = 3.0
)

// search returns the best paragraphs in a namespace and those below it; empty means all. By
// words alone it searches if asked to, or if there is no embedder; the note says why else.
func (x *index) search(ctx context.Context, owner, query, namespace string, limit int, keywordOnly bool) (found []hit, note string, err error) {
	x.mu.Lock()
	hits, all, err := x.byWords(owner, query, namespace)
	var known [][]float32
	var service *embed.Service
	if x.vectors.service != nil && !keywordOnly && err == nil {
		if service = x.vectors.service(); service != nil {
			// Those of all namespaces, so that no search removes what another needs.
			byPlace := map[place][]float32{}
			for i, v := range x.vectors.of(service, x.store, owner, all.paragraphs) {
				byPlace[all.places[i]] = v
			}
			for _, h := range hits {
				known = append(known, byPlace[place{h.namespace, h.line}])
			}
		}
	}
	x.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	if service != nil && len(hits) > 0 {
		vector, reason := service.Query(ctx, query)
		switch {
		case vector == nil:
			note = "searched by words alone: " + reason
		case !blend(hits, known, vector):
			note = "searched by words alone: the notes are still being embedded"
		}
	}
	hits = slices.DeleteFunc(hits, func(h hit) bool { return h.score <= 0 })
	slices.SortFunc(hits, func(a, b hit) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.namespace, b.namespace), a.line-b.line)
	})
	return hits[:min(len(hits), limit)], note, nil
}

// place is where a paragraph begins.
type place struct {
	namespace string
	line      int
}

// everything is all paragraphs of an owner.
type everything struct {
	paragraphs []paragraph
	places     []place
}

// byWords scores the paragraphs of a namespace by their words; 0 if none is in the query.
func (x *index) byWords(owner, query, namespace string) ([]hit, everything, error) {
	files, err := x.of(owner)
	if err != nil {
		return nil, everything{}, err
	}
	query = strings.Join(words(query), " ")
	terms := slices.Compact(slices.Sorted(strings.FieldsSeq(query)))
	total, frequency := 0, map[string]int{}
	var all everything
	for name, f := range files {
		for i := range f.paragraphs {
			p := &f.paragraphs[i]
			all.paragraphs = append(all.paragraphs, *p)
			all.places = append(all.places, place{name, p.line})
			total += p.length
			for _, t := range terms {
				if p.words[t] > 0 {
					frequency[t]++
				}
			}
		}
	}
	count := float64(len(all.paragraphs))
	var hits []hit
	for i := range all.paragraphs {
		p, name := &all.paragraphs[i], all.places[i].namespace
		if namespace != "" && name != namespace && !strings.HasPrefix(name, namespace+"/") {
			continue
		}
		score := 0.0
		for _, t := range terms {
			n := float64(p.words[t])
			if n == 0 {
				continue
			}
			rarity := math.Log(1 + (count-float64(frequency[t])+0.5)/(float64(frequency[t])+0.5))
			score += rarity * n * (bm25K + 1) / (n + bm25K*(1-bm25B+bm25B*float64(p.length)*count/float64(max(total, 1))))
		}
		hits = append(hits, hit{name, *p, score / (score + halfScore), "keyword"})
	}
	return hits, all, nil
}
