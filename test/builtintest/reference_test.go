package builtintest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/builtin/system"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/internal/search"
	"github.com/toolroom/toolroom/internal/search/bench"
	"github.com/toolroom/toolroom/source"
)

type question struct {
	Text     string   `json:"text"`
	Relevant []string `json:"relevant"`
}

// keywords returns the questions that are keywords of the tools.
func keywords(t *testing.T) []question {
	t.Helper()
	data, err := os.ReadFile("../../internal/builtin/questions.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []question
	for line := range strings.Lines(string(data)) {
		tools, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			t.Fatalf("%q has no tool", line)
		}
		all = append(all, question{text, strings.Split(tools, ",")})
	}
	return all
}

func questions(t *testing.T, name string) []question {
	t.Helper()
	return readLines[question](t, "testdata/"+name)
}

// readLines returns the JSON values in a file with one a line.
func readLines[T any](t *testing.T, path string) (all []T) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var v T
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

// minFirstShare is the least share of questions that must find their tool first.
const minFirstShare = 0.95

// A question in a user's words finds its tool first, among the packs that are on by default
// and the pack of the tool.
func TestQuestionsFindTheirToolFirst(t *testing.T) {
	t.Parallel()
	all := keywords(t)
	if len(all) < 300 {
		t.Errorf("%d questions", len(all))
	}
	first, _, asked, misses := countHits(t, all)
	for _, miss := range misses {
		t.Log(miss)
	}
	if share := float64(first) / float64(len(all)); share < minFirstShare {
		t.Errorf("%d of %d questions find their tool first (%.3f)", first, len(all), share)
	}
	tools, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if asked[tool.ID.String()] < 3 {
			t.Errorf("%d questions ask for %s", asked[tool.ID.String()], tool.ID)
		}
	}
}

// These questions took no part in the choice of keywords: those of unseen.jsonl are another
// author's, those of heldout.jsonl a third of 790 that were divided at random before any was
// asked. Only their totals were looked at. Keep it so: log no single question, change nothing
// because of one, and add new ones to the others.
func TestQuestionsThatNobodyTunedForFindTheirTool(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]struct{ first, three int }{"unseen.jsonl": {91, 97}, "heldout.jsonl": {80, 90}} {
		all := questions(t, name)
		first, three, _, _ := countHits(t, all)
		t.Logf("%s: %d of %d questions find their tool first, %d among the first three", name, first, len(all), three)
		if 100*first < least.first*len(all) || 100*three < least.three*len(all) {
			t.Errorf("%s: %d of %d questions find their tool first, %d among the first three", name, first, len(all), three)
		}
	}
}

// The keywords of built-in tools do not hide the tools of a user's sources, which have none, nor
// the other way round.
func TestToolsOfUsersAreFoundBesideTheBuiltin(t *testing.T) {
	t.Parallel()
	var index search.Index
	builtins, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range builtins {
		index.Put(search.Document{
			ID: tool.ID.String(), Namespace: tool.ID.Namespace, Name: tool.ID.Name, Title: tool.Title, Description: tool.Description,
			Tags: tool.Tags, Keywords: tool.Keywords, Schema: tool.InputSchema, ReadOnly: tool.Hints.IsReadOnly(),
		})
	}
	const metatool = "../../internal/search/bench/testdata/metatool."
	for _, d := range readLines[search.Document](t, metatool+"tools.jsonl") {
		index.Put(d)
	}
	first := func(name string) float64 {
		all := readLines[question](t, name)
		found := 0
		for _, q := range all {
			if hits := index.Search(q.Text, search.Options{Limit: 1}); len(hits) > 0 && slices.Contains(q.Relevant, hits[0].ID) {
				found++
			}
		}
		return float64(found) / float64(len(all))
	}
	// Without the built-in tools 0.44 of the first are found first.
	if users, own := first(metatool+"queries.jsonl"), first("testdata/unseen.jsonl"); users < 0.39 || own < 0.88 {
		t.Errorf("%.3f of the questions find the tool of a user first, %.3f the built-in one", users, own)
	} else {
		t.Logf("%.3f of the questions find the tool of a user first, %.3f the built-in one", users, own)
	}
}

// countHits returns how many questions find their tool (or one of several that answer them) first
// and among the first three, how many there are of each tool, and those that find another first.
func countHits(t *testing.T, all []question) (first, three int, asked map[string]int, misses []string) {
	t.Helper()
	catalogs := map[string]*catalog.Catalog{"": catalogOf(t, "")}
	packOf := map[string]string{}
	for _, p := range Packs() {
		if !Optional(p.Name) {
			continue
		}
		catalogs[p.Name] = catalogOf(t, p.Name)
		for _, tool := range p.List() {
			packOf[tool.ID.String()] = p.Name
		}
	}
	asked = map[string]int{}
	for _, q := range all {
		asked[q.Relevant[0]]++
		var got []string
		for _, hit := range catalogs[packOf[q.Relevant[0]]].Search(q.Text, catalog.SearchOptions{Limit: 3}).Hits {
			got = append(got, hit.ID)
		}
		answers := func(id string) bool { return slices.Contains(q.Relevant, id) }
		if slices.ContainsFunc(got, answers) {
			three++
		}
		if len(got) > 0 && answers(got[0]) {
			first++
		} else {
			misses = append(misses, fmt.Sprintf("%q finds %v, not %v", q.Text, got, q.Relevant))
		}
	}
	return first, three, asked, misses
}

// catalogOf returns a catalog of the packs that are on by default, and of one more.
func catalogOf(t *testing.T, more string) *catalog.Catalog {
	t.Helper()
	c := catalog.New(catalog.Options{})
	for _, p := range Packs() {
		if Optional(p.Name) && p.Name != more {
			continue
		}
		if err := c.SetBuiltin(p.Name, source.Source(p.Source()), p.List()); err != nil {
			t.Fatal(err)
		}
	}
	info, err := system.Tools("")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetBuiltin("system", nil, []toolroom.Tool{info[0].Tool}); err != nil {
		t.Fatal(err)
	}
	programs, err := new(code.Service).Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	programs[0].Keywords = builtin.Keywords(code.Tool)
	if err := c.SetBuiltin("code", nil, programs); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestTheQuestionsAreInTheFormatOfBenchSearch(t *testing.T) {
	t.Parallel()
	var tools bytes.Buffer
	if err := WriteTools(&tools); err != nil {
		t.Fatal(err)
	}
	var queries bytes.Buffer
	enc := json.NewEncoder(&queries)
	for i, q := range keywords(t) {
		// WriteTools writes no program tool.
		if i%10 == 0 && q.Relevant[0] != code.Tool {
			if err := enc.Encode(q); err != nil {
				t.Fatal(err)
			}
		}
	}
	report, err := bench.Run(&tools, &queries, bench.Options{})
	if err != nil || report.Unknown > 0 || report.RecallAt1 < 0.9 {
		t.Errorf("R@1 %.3f, %d unknown, %v", report.RecallAt1, report.Unknown, err)
	}
}

func TestTheReferenceIsCurrent(t *testing.T) {
	t.Parallel()
	want, err := Markdown()
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../docs/builtins.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("docs/builtins.md is not current: go run ./test/builtindocs > docs/builtins.md")
	}
}

func TestEachToolIsFullyDescribed(t *testing.T) {
	t.Parallel()
	tools, err := Tools()
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if tool.Title == "" || tool.Description == "" || len(tool.OutputSchema) == 0 || tool.Hints.ReadOnly == nil || tool.Hints.OpenWorld == nil {
			t.Errorf("%s lacks a title, a description, an output schema or hints", tool.ID)
		}
		if tool.ID.Namespace != "system" && len(tool.Examples) == 0 {
			t.Errorf("%s has no example", tool.ID)
		}
		input, err := schema.Compile(tool.InputSchema, schema.Limits{})
		if err != nil {
			t.Fatalf("%s: %v", tool.ID, err)
		}
		var said any
		if err := json.Unmarshal(tool.InputSchema, &said); err != nil || hasControls(said) {
			t.Errorf("%s: its schema has control characters: %s %v", tool.ID, tool.InputSchema, err)
		}
		for _, e := range tool.Examples {
			var v any
			if err := json.Unmarshal(e.Arguments, &v); err != nil {
				t.Fatal(err)
			}
			if err := input.Validate(v); err != nil {
				t.Errorf("%s: the example %s is invalid: %v", tool.ID, e.Arguments, err)
			}
		}
	}
}

// hasControls reports whether a text in a JSON value has a control character: in a struct tag
// \n is one.
func hasControls(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.ContainsFunc(v, unicode.IsControl)
	case map[string]any:
		for _, one := range v {
			if hasControls(one) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, hasControls)
	}
	return false
}
