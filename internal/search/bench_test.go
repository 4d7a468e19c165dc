package search_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/toolroom/toolroom/internal/search"
)

func BenchmarkSearch5k(b *testing.B)  { benchmarkSearch(b, 5_000) }
func BenchmarkSearch50k(b *testing.B) { benchmarkSearch(b, 50_000) }

func benchmarkSearch(b *testing.B, tools int) {
	c := readCorpus(b)
	ix := newIndex(c.tools(tools)...)
	var times latencies
	for i := 0; b.Loop(); i++ {
		query := c.queries[i%len(c.queries)]
		times.measure(func() { ix.Search(query, search.Options{}) })
	}
	times.report(b)
}

// BenchmarkPutOne50k adds a tool to 50,000 and takes it out again. The
// percentiles are those of adding.
func BenchmarkPutOne50k(b *testing.B) {
	c := readCorpus(b)
	docs := c.tools(50_000 + 1_000)
	ix := newIndex(docs[:50_000]...)
	spare := docs[50_000:]
	var times latencies
	for i := 0; b.Loop(); i++ {
		doc := spare[i%len(spare)]
		times.measure(func() { ix.Put(doc) })
		ix.Delete(doc.ID)
	}
	times.report(b)
}

// BenchmarkReplaceOne50k replaces a tool in the midst of 50,000.
func BenchmarkReplaceOne50k(b *testing.B) {
	c := readCorpus(b)
	docs := c.tools(50_000)
	ix := newIndex(docs...)
	var times latencies
	for i := 0; b.Loop(); i++ {
		doc := docs[i*7919%len(docs)]
		times.measure(func() { ix.Put(doc) })
	}
	times.report(b)
}

type latencies []time.Duration

func (l *latencies) measure(f func()) {
	start := time.Now()
	f()
	*l = append(*l, time.Since(start))
}

func (l latencies) report(b *testing.B) {
	slices.Sort(l)
	for _, percent := range []int{50, 99} {
		at := l[len(l)*percent/100]
		b.ReportMetric(float64(at)/float64(time.Microsecond), fmt.Sprintf("p%d-µs", percent))
	}
}

// A corpus makes tools from the words of real ones: drawn as often as they
// occur there, so that posting lists are as long as in a real catalog.
type corpus struct {
	random                     *rand.Rand
	names, prose, params, help []string
	queries                    []string
}

func readCorpus(b *testing.B) *corpus {
	c := &corpus{random: rand.New(rand.NewPCG(1, 2))}
	eachLine(b, "bench/testdata/bfcl.tools.jsonl", func(line []byte) error {
		var t struct {
			Name, Description string
			Schema            struct {
				Properties map[string]struct{ Description string }
			}
		}
		err := json.Unmarshal(line, &t)
		c.names = append(c.names, split(t.Name)...)
		c.prose = append(c.prose, split(t.Description)...)
		for _, name := range slices.Sorted(maps.Keys(t.Schema.Properties)) {
			c.params = append(c.params, name)
			c.help = append(c.help, split(t.Schema.Properties[name].Description)...)
		}
		return err
	})
	eachLine(b, "bench/testdata/bfcl.queries.jsonl", func(line []byte) error {
		var q struct{ Text string }
		err := json.Unmarshal(line, &q)
		c.queries = append(c.queries, q.Text)
		return err
	})
	return c
}

func eachLine(b *testing.B, file string, use func(line []byte) error) {
	f, err := os.Open(file)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := use(lines.Bytes()); err != nil {
			b.Fatalf("%s: %v", file, err)
		}
	}
	if err := lines.Err(); err != nil {
		b.Fatalf("%s: %v", file, err)
	}
}

func split(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
}

func (c *corpus) tools(n int) []search.Document {
	docs := make([]search.Document, n)
	for i := range docs {
		name := strings.Join(c.draw(c.names, 2, 3), "_")
		// The vocabulary of a real catalog grows with it: each tool brings a
		// word of its own.
		own := fmt.Sprintf("%s%s", c.draw(c.prose, 1, 1)[0], c.draw(c.names, 1, 1)[0])
		docs[i] = search.Document{
			ID: fmt.Sprintf("s%d:%s", i, name), Namespace: fmt.Sprintf("s%d", i/50), Name: name,
			Description: strings.Join(c.draw(c.prose, 8, 24), " ") + " " + own,
			Schema:      c.schema(),
		}
	}
	return docs
}

func (c *corpus) schema() json.RawMessage {
	properties := make(map[string]any)
	for _, name := range c.draw(c.params, 1, 6) {
		properties[name] = map[string]any{"type": "string", "description": strings.Join(c.draw(c.help, 4, 12), " ")}
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		panic(err) // strings only
	}
	return schema
}

// draw returns from low to high of the words.
func (c *corpus) draw(words []string, low, high int) []string {
	drawn := make([]string, low+c.random.IntN(high-low+1))
	for i := range drawn {
		drawn[i] = words[c.random.IntN(len(words))]
	}
	return drawn
}
