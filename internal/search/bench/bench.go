// Package bench measures the ranking of package search on a set of tools and
// queries with known answers. Start at [Run].
package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/search"
)

// A Report says how well and how fast the queries of a set were answered. The
// figures of quality are means over the queries.
type Report struct {
	Tools      int     `json:"tools"`
	Queries    int     `json:"queries"`
	RecallAt1  float64 `json:"R@1"` // found wanted / wanted, among the first hit
	RecallAt5  float64 `json:"R@5"`
	RecallAt10 float64 `json:"R@10"`
	NDCGAt10   float64 `json:"nDCG@10"` // binary gains, discount log2(rank+1)
	// Unknown counts wanted ids that no tool has. They count as not found.
	Unknown int     `json:"unknown_relevant"`
	Index   float64 `json:"index_ms"` // time to index all tools, in milliseconds
	Latency Latency `json:"latency_ms"`
	// Large is the latency with the tools repeated under other ids until there are
	// LargeTools. Each search counts as the best of three.
	Large Latency `json:"latency_ms_at_5000_tools"`
	// Embed is the mean time to embed one text, in milliseconds; 0 if all were known.
	Embed float64 `json:"embed_ms,omitempty"`
	// Taught is the number of queries that were uses before, and are not asked.
	Taught int `json:"taught,omitempty"`
}

// LargeTools is the size at which latency is promised.
const LargeTools = 5000

// Options are what [Run] does besides. The zero value measures words alone.
type Options struct {
	// Embed returns vectors of texts, one of length 1 for each; nil uses none.
	Embed func(texts []string) ([][]float32, error)
	// Weight is that of [search.Options].
	Weight float64
	// Uses teaches each tool so many of its queries, evenly spread, as if it had been called after
	// each. Those, and others with the same words, are not asked then.
	Uses int
	// Sample asks about this many queries, evenly spread; 0 asks all.
	Sample int
}

// Latency of single searches for ten hits, one after another, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// A LineError says which line of the input cannot be used, and why.
type LineError struct {
	Input string // "tools" or "queries"
	Line  int    // from 1
	Err   error
}

func (e *LineError) Error() string { return fmt.Sprintf("%s line %d: %v", e.Input, e.Line, e.Err) }

func (e *LineError) Unwrap() error { return e.Err }

type tool struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
	Tags        []string        `json:"tags"`
}

type query struct {
	Text     string   `json:"text"`
	Relevant []string `json:"relevant"`
}

const depth = 10 // hits looked at

// Run indexes the tools and asks the queries. Both inputs hold one JSON object
// a line: tools have id, name, description, schema and tags, queries text and
// relevant, the ids wanted; other members are ignored. An unusable line ends
// the run with a [LineError].
func Run(tools, queries io.Reader, o Options) (Report, error) {
	docs, err := readTools(tools)
	if err != nil {
		return Report{}, err
	}
	asked, err := readQueries(queries)
	if err != nil {
		return Report{}, err
	}
	var r Report
	learned, asked := teach(asked, o.Uses)
	r.Taught = learned.taught
	asked = sample(asked, o.Sample)
	r.Tools, r.Queries = len(docs), len(asked)
	var ix search.Index
	start := time.Now()
	ix.Put(docs...)
	r.Index = milliseconds(time.Since(start))
	options := make([]search.Options, len(asked))
	for i := range options {
		options[i] = search.Options{Limit: depth, Learned: learned.recall}
	}
	if o.Embed != nil {
		if err := r.embed(&ix, docs, asked, options, o); err != nil {
			return Report{}, err
		}
	}
	r.ask(&ix, asked, options)
	r.countUnknown(docs, asked)
	r.Large = large(docs, asked)
	return r, nil
}

// sample returns n of the queries, evenly spread.
func sample(queries []query, n int) []query {
	if n <= 0 || n >= len(queries) {
		return queries
	}
	picked := make([]query, n)
	for i := range picked {
		picked[i] = queries[i*len(queries)/n]
	}
	return picked
}

// embed gives the index and the queries their vectors.
func (r *Report) embed(ix *search.Index, docs []search.Document, queries []query, options []search.Options, o Options) error {
	texts := make([]string, 0, len(docs)+len(queries))
	for _, d := range docs {
		texts = append(texts, d.Text())
	}
	ends := make([]int, len(queries)) // of each query's parts
	for i, q := range queries {
		texts = append(texts, search.Parts(q.Text)...)
		ends[i] = len(texts)
	}
	start := time.Now()
	vectors, err := o.Embed(texts)
	if err != nil {
		return err
	}
	r.Embed = milliseconds(time.Since(start)) / float64(len(texts))
	byID := make(map[string][]float32, len(docs))
	for i, d := range docs {
		byID[d.ID] = vectors[i]
	}
	ix.SetVectors(byID)
	from := len(docs)
	for i, end := range ends {
		options[i].Vectors, options[i].Weight = vectors[from:end], o.Weight
		from = end
	}
	return nil
}

// lessons are what uses have taught.
type lessons struct {
	byTerm map[string][]search.Lesson
	taught int
}

func (l *lessons) recall(term string) []search.Lesson { return l.byTerm[term] }

// teach takes some queries of each tool, evenly spread, as uses of it by one caller, and
// returns the queries that are left. Queries for several tools teach nothing.
func teach(queries []query, uses int) (*lessons, []query) {
	l := &lessons{byTerm: make(map[string][]search.Lesson)}
	counts, all := make(map[string]int), make(map[string]int)
	for _, q := range queries {
		if len(q.Relevant) == 1 {
			all[q.Relevant[0]]++
		}
	}
	weights := make(map[string]map[string]float64) // by term and tool
	seen := make(map[string]bool)
	var left []query
	for _, q := range queries {
		tool := q.Relevant[0]
		if len(q.Relevant) == 1 {
			counts[tool]++
		}
		// The one at which another of the evenly spread uses is due.
		due := counts[tool]*uses/max(all[tool], 1) > (counts[tool]-1)*uses/max(all[tool], 1)
		if len(q.Relevant) != 1 || !due {
			left = append(left, q)
			continue
		}
		l.taught++
		terms := search.Terms(q.Text)
		seen[strings.Join(terms, " ")] = true
		for _, term := range terms {
			if weights[term] == nil {
				weights[term] = make(map[string]float64)
			}
			weights[term][tool]++
		}
	}
	for term, tools := range weights {
		for tool, weight := range tools {
			l.byTerm[term] = append(l.byTerm[term], search.Lesson{ID: tool, Weight: weight})
		}
	}
	if l.taught > 0 {
		left = slices.DeleteFunc(left, func(q query) bool { return seen[strings.Join(search.Terms(q.Text), " ")] })
	}
	return l, left
}

// large measures searches by words among LargeTools tools.
func large(docs []search.Document, queries []query) Latency {
	const most = 2000 // queries
	if len(docs) == 0 {
		return Latency{}
	}
	var ix search.Index
	many := make([]search.Document, LargeTools)
	for i := range many {
		many[i] = docs[i%len(docs)]
		if round := i / len(docs); round > 0 {
			many[i].ID = fmt.Sprintf("%s~%d", many[i].ID, round)
		}
	}
	ix.Put(many...)
	queries = sample(queries, most)
	times := make([]time.Duration, len(queries))
	for i, q := range queries {
		times[i] = time.Hour
		for range 3 { // the best of three: other work on the machine is not the search
			start := time.Now()
			ix.Search(q.Text, search.Options{Limit: depth})
			times[i] = min(times[i], time.Since(start))
		}
	}
	return latency(times)
}

func (r *Report) ask(ix *search.Index, queries []query, options []search.Options) {
	times := make([]time.Duration, len(queries))
	for i, q := range queries {
		start := time.Now()
		hits := ix.Search(q.Text, options[i])
		times[i] = time.Since(start)
		r.judge(hits, q.Relevant)
	}
	n := float64(len(queries))
	r.RecallAt1 /= n
	r.RecallAt5 /= n
	r.RecallAt10 /= n
	r.NDCGAt10 /= n
	r.Latency = latency(times)
}

func latency(times []time.Duration) Latency {
	slices.Sort(times)
	return Latency{
		P50: milliseconds(times[len(times)/2]),
		P99: milliseconds(times[len(times)*99/100]),
		Max: milliseconds(times[len(times)-1]),
	}
}

// judge adds the quality of one answer.
func (r *Report) judge(hits []search.Hit, wanted []string) {
	var gain, ideal float64
	for rank := range min(depth, len(wanted)) {
		ideal += discount(rank)
	}
	share := 1 / float64(len(wanted))
	for rank, hit := range hits {
		if !slices.Contains(wanted, hit.ID) {
			continue
		}
		gain += discount(rank)
		if rank < 1 {
			r.RecallAt1 += share
		}
		if rank < 5 {
			r.RecallAt5 += share
		}
		r.RecallAt10 += share
	}
	r.NDCGAt10 += gain / ideal
}

func discount(rank int) float64 { return 1 / math.Log2(float64(rank)+2) }

func (r *Report) countUnknown(docs []search.Document, queries []query) {
	known := make(map[string]bool, len(docs))
	for _, d := range docs {
		known[d.ID] = true
	}
	for _, q := range queries {
		for _, id := range q.Relevant {
			if !known[id] {
				r.Unknown++
			}
		}
	}
}

func readTools(input io.Reader) ([]search.Document, error) {
	seen := make(map[string]bool)
	return readLines(input, "tools", "id, name, description, schema", func(t tool) (search.Document, error) {
		switch {
		case t.ID == "":
			return search.Document{}, errors.New("id is missing")
		case seen[t.ID]:
			return search.Document{}, fmt.Errorf("id %q occurs twice", t.ID)
		}
		seen[t.ID] = true
		return search.Document{
			ID: t.ID, Namespace: namespace(t), Name: t.Name,
			Description: t.Description, Schema: t.Schema, Tags: t.Tags,
		}, nil
	})
}

// namespace returns what an id such as github:create_issue says beyond the name.
func namespace(t tool) string {
	before, ok := strings.CutSuffix(t.ID, t.Name)
	if !ok {
		return ""
	}
	return strings.TrimRight(before, ":./_-")
}

func readQueries(input io.Reader) ([]query, error) {
	queries, err := readLines(input, "queries", "text, relevant", func(q query) (query, error) {
		slices.Sort(q.Relevant)
		q.Relevant = slices.Compact(q.Relevant)
		if len(q.Relevant) == 0 {
			return q, errors.New("relevant is missing or empty")
		}
		return q, nil
	})
	if err == nil && len(queries) == 0 {
		err = errors.New("queries: no lines, so there is nothing to measure")
	}
	return queries, err
}

// readLines decodes each line that is not blank and hands it to accept.
func readLines[L, V any](input io.Reader, name, members string, accept func(L) (V, error)) ([]V, error) {
	const longest = 16 << 20 // bytes
	lines := bufio.NewScanner(input)
	lines.Buffer(nil, longest)
	var values []V
	number := 0
	fail := func(err error) ([]V, error) {
		return nil, &LineError{name, number, fmt.Errorf("%w; a line is a JSON object with %s", err, members)}
	}
	for lines.Scan() {
		number++
		if len(strings.TrimSpace(lines.Text())) == 0 {
			continue
		}
		var line L
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return fail(err)
		}
		value, err := accept(line)
		if err != nil {
			return fail(err)
		}
		values = append(values, value)
	}
	number++
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fail(fmt.Errorf("longer than %d bytes", longest))
	case err != nil:
		return nil, &LineError{name, number, err}
	}
	return values, nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
