package search_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/search"
)

// meaning is an index of three tools with vectors of two dimensions: weather and money.
func meaning() *search.Index {
	ix := newIndex(
		search.Document{ID: "a:forecast", Name: "forecast", Description: "Weather of the next days."},
		search.Document{ID: "b:invoice", Name: "invoice", Description: "Pay an invoice."},
		search.Document{ID: "c:rain", Name: "rain", Description: "Is an umbrella needed?"},
	)
	ix.SetVectors(map[string][]float32{"a:forecast": {1, 0}, "b:invoice": {0, 1}, "c:rain": {0.8, 0.6}, "gone": {1, 0}})
	return ix
}

func TestMeaningFindsWhatHasNoWordOfTheQuery(t *testing.T) {
	t.Parallel()
	ix := meaning()
	if hits := ix.Search("will it be sunny", search.Options{}); len(hits) != 0 {
		t.Fatalf("by words alone: %+v", hits)
	}
	hits := ix.Search("will it be sunny", search.Options{Vectors: [][]float32{{1, 0}}, Weight: 1})
	if len(hits) != 2 || hits[0].ID != "a:forecast" || hits[1].ID != "c:rain" {
		t.Fatalf("by meaning: %+v", hits)
	}
	if why := hits[0].Why; len(why) != 1 || why[0].Field != "meaning" {
		t.Errorf("why: %+v", why)
	}
}

func TestWordsAndMeaningAreAdded(t *testing.T) {
	t.Parallel()
	ix := meaning()
	for weight, want := range map[float64]string{0: "b:invoice", 0.5: "b:invoice", 2: "a:forecast"} {
		hits := ix.Search("invoice", search.Options{Vectors: [][]float32{{1, 0}}, Weight: weight})
		// A name that is the query stays first whatever the meaning.
		if hits[0].ID != "b:invoice" {
			t.Errorf("weight %v: the name itself is not first: %+v", weight, hits)
		}
		hits = ix.Search("pay someone", search.Options{Vectors: [][]float32{{1, 0}}, Weight: weight})
		if hits[0].ID != want {
			t.Errorf("weight %v: %s is first, want %s", weight, hits[0].ID, want)
		}
	}
}

func TestEachPartOfAQueryFindsItsTool(t *testing.T) {
	t.Parallel()
	hits := meaning().Search("xyzzy", search.Options{Vectors: [][]float32{{1, 0}, {0, 1}}, Weight: 1, Limit: 2})
	if len(hits) != 2 || hits[0].ID != "a:forecast" || hits[1].ID != "b:invoice" || hits[0].Score != hits[1].Score {
		t.Errorf("found %+v", hits)
	}
}

func TestPartsOfAQueryAreItsSentences(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("One more small question? ", 20)
	for query, want := range map[string][]string{
		"":                   nil,
		"  read   a file ":   {"read a file"},
		"Read it. Hi there!": {"Read it. Hi there!"},
		"Book a flight to Rome. And the weather there?\nThanks!":  {"Book a flight to Rome.", "And the weather there? Thanks!"},
		"Hi! I have 3.5 dollars, is that enough for 2.0 coffees?": {"Hi! I have 3.5 dollars, is that enough for 2.0 coffees?"},
	} {
		if got := search.Parts(query); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", query, got, want)
		}
	}
	if got := search.Parts(many); len(got) != 8 || strings.Join(got, " ") != strings.TrimSpace(many) {
		t.Errorf("%d parts: %q", len(got), got)
	}
	if got := search.Parts(strings.Repeat("word ", 10_000)); len(got) != 1 || len(got[0]) > 2<<10 {
		t.Errorf("%d parts", len(got))
	}
}

func TestTooFewVectorsLeaveTheRankingAsItIs(t *testing.T) {
	t.Parallel()
	ix := meaning()
	ix.Put(search.Document{ID: "a:forecast", Name: "forecast", Description: "Another text."}) // loses its vector
	if n, enough := ix.Vectored(); n != 2 || enough {
		t.Errorf("%d vectors, enough %v", n, enough)
	}
	if hits := ix.Search("sunny", search.Options{Vectors: [][]float32{{1, 0}}, Weight: 1}); len(hits) != 0 {
		t.Errorf("found %+v", hits)
	}
	ix.SetVectors(map[string][]float32{"a:forecast": {1, 0}})
	if hits := ix.Search("sunny", search.Options{Vectors: [][]float32{{1, 0}}, Weight: 1}); len(hits) != 2 {
		t.Errorf("found %+v", hits)
	}
	ix.ClearVectors()
	if n, _ := ix.Vectored(); n != 0 {
		t.Errorf("%d vectors are left", n)
	}
}

func TestVectorsOfAnotherDimensionAreLeftOut(t *testing.T) {
	t.Parallel()
	ix := meaning()
	hits := ix.Search("pay", search.Options{Vectors: [][]float32{{1, 0, 0}}, Weight: 1})
	if len(hits) != 1 || hits[0].ID != "b:invoice" {
		t.Errorf("found %+v", hits)
	}
}

func TestTheTextOfAToolIsItsNameAndTheBeginningOfItsDescription(t *testing.T) {
	t.Parallel()
	long := search.Document{ID: "x:y", Name: "createIssue_v2", Title: "Create", Description: "word  word\n"}
	for range 200 {
		long.Description += "more "
	}
	text := long.Text()
	if want := "create issue v2. Create. word word more"; len(text) > 400 || text[:len(want)] != want {
		t.Errorf("%q", text)
	}
}
