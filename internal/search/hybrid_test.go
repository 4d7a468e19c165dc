package search_test

import (
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
	hits := ix.Search("will it be sunny", search.Options{Vector: []float32{1, 0}, Weight: 1})
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
		hits := ix.Search("invoice", search.Options{Vector: []float32{1, 0}, Weight: weight})
		// A name that is the query stays first whatever the meaning.
		if hits[0].ID != "b:invoice" {
			t.Errorf("weight %v: the name itself is not first: %+v", weight, hits)
		}
		hits = ix.Search("pay someone", search.Options{Vector: []float32{1, 0}, Weight: weight})
		if hits[0].ID != want {
			t.Errorf("weight %v: %s is first, want %s", weight, hits[0].ID, want)
		}
	}
}

func TestTooFewVectorsLeaveTheRankingAsItIs(t *testing.T) {
	t.Parallel()
	ix := meaning()
	ix.Put(search.Document{ID: "a:forecast", Name: "forecast", Description: "Another text."}) // loses its vector
	if n, enough := ix.Vectored(); n != 2 || enough {
		t.Errorf("%d vectors, enough %v", n, enough)
	}
	if hits := ix.Search("sunny", search.Options{Vector: []float32{1, 0}, Weight: 1}); len(hits) != 0 {
		t.Errorf("found %+v", hits)
	}
	ix.SetVectors(map[string][]float32{"a:forecast": {1, 0}})
	if hits := ix.Search("sunny", search.Options{Vector: []float32{1, 0}, Weight: 1}); len(hits) != 2 {
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
	hits := ix.Search("pay", search.Options{Vector: []float32{1, 0, 0}, Weight: 1})
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
