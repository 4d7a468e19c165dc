package search

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fresh builds the index that a sequence of edits should have led to.
func fresh(docs map[string]Document) *Index {
	var ix Index
	for _, d := range docs {
		ix.Put(d)
	}
	return &ix
}

// TestAnEditedIndexEqualsAFreshOne holds replace and delete to leave no residue.
func TestAnEditedIndexEqualsAFreshOne(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"read", "write", "reads", "file", "files", "sendMail", "mail", "weather", "天气", "7"})
	document := rapid.Custom(func(t *rapid.T) Document {
		return Document{
			ID:          rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "id"),
			Name:        word.Draw(t, "name"),
			Description: fmt.Sprint(rapid.SliceOfN(word, 0, 6).Draw(t, "description")),
			Tags:        rapid.SliceOfN(word, 0, 2).Draw(t, "tags"),
		}
	})
	queries := []string{"read the file", "wether in filez", "sendmail", "mail", "天气", "a", "7 weather"}
	rapid.Check(t, func(t *rapid.T) {
		var edited Index
		model := make(map[string]Document)
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				docs := rapid.SliceOfN(document, 0, 3).Draw(t, "docs")
				edited.Put(docs...)
				for _, d := range docs {
					model[d.ID] = d
				}
			},
			"delete": func(t *rapid.T) {
				id := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "none"}).Draw(t, "id")
				edited.Delete(id)
				delete(model, id)
			},
			"": func(t *rapid.T) {
				want := fresh(model)
				if edited.Len() != len(model) {
					t.Fatalf("Len() = %d, want %d", edited.Len(), len(model))
				}
				for _, q := range queries {
					if diff := cmp.Diff(want.Search(q, Options{}), edited.Search(q, Options{})); diff != "" {
						t.Fatalf("Search(%q): -fresh +edited\n%s", q, diff)
					}
				}
				if got, want := residue(&edited), residue(want); got != want {
					t.Fatalf("kept %+v, want %+v", got, want)
				}
			},
		})
	})
}

type kept struct {
	terms, initials, listed, postings, spellings, spelled, docs int
	total                                                       float64
}

func residue(ix *Index) kept {
	k := kept{
		terms: len(ix.vocab.terms), initials: len(ix.vocab.initials),
		spellings: len(ix.spellings), docs: len(ix.docs) - len(ix.free), total: ix.total,
	}
	for _, terms := range ix.vocab.initials {
		k.listed += len(terms)
	}
	for _, t := range ix.vocab.terms {
		k.postings += len(t.postings)
	}
	for _, slots := range ix.spellings {
		k.spelled += len(slots)
	}
	return k
}

func TestAReaderSeesAChangeAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const size = 40
	var ix Index
	var ids []string
	for i := range size {
		ids = append(ids, fmt.Sprint("d", i))
	}
	put := func(colour string) {
		var docs []Document
		for _, id := range ids {
			docs = append(docs, Document{ID: id, Name: "flock", Description: colour})
		}
		ix.Put(docs...)
	}
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				hits := ix.Search("flock red blue", Options{Limit: 2 * size})
				if len(hits) != 0 && len(hits) != size {
					t.Errorf("%d of %d seen", len(hits), size)
					return
				}
				for _, hit := range hits {
					if len(hit.Why) != 2 || hit.Score != hits[0].Score {
						t.Errorf("half a change seen: %v beside %v", hit, hits[0])
						return
					}
				}
			}
		})
	}
	for range 300 {
		put("blue")
		put("red")
		ix.Delete(ids...)
	}
	close(done)
	readers.Wait()
}

func TestAWordLookedForAgainstItsNeighbours(t *testing.T) {
	t.Parallel()
	var v vocabulary
	for _, text := range []string{"weather", "feather", "whether", "wealth", "configuration", "confirm", "data", "date"} {
		v.intern(text)
	}
	tests := []struct {
		word string
		want []string
	}{
		{"weathr", []string{"weather"}},
		{"waether", []string{"weather", "whether"}},
		{"eather", nil}, // the first letter must be right
		{"config", []string{"configuration"}},
		{"configurationfile", []string{"configuration"}},
		{"configrutaion", []string{"configuration"}},
		{"datta", []string{"data"}},
		{"dat", nil},
		{"unrelated", nil},
	}
	for _, tt := range tests {
		var got []string
		for _, n := range v.near(tt.word) {
			got = append(got, n.text)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("near(%q): -want +got\n%s", tt.word, diff)
		}
	}
}

func TestVariantsOfADocumentAreHitsOfWhoWantsThem(t *testing.T) {
	t.Parallel()
	var ix Index
	ix.Put(Document{ID: "a:speak", Name: "speak", Description: "Says moo."}, Document{ID: "a:speak", Variant: "2", Name: "speak", Description: "Says woof."})
	search := func(query string, filter func(string) bool) (keys []string) {
		for _, h := range ix.Search(query, Options{Filter: filter, Learned: func(string) []Lesson { return []Lesson{{ID: "a:speak", Weight: 1}} }}) {
			keys = append(keys, h.ID)
		}
		return keys
	}
	second := func(key string) bool { return key == "a:speak@2" }
	if got := search("a:speak", nil); !slices.Equal(got, []string{"a:speak"}) || ix.Len() != 1 {
		t.Errorf("without a filter: %v of %d", got, ix.Len())
	}
	for _, query := range []string{"woof", "speak", "a:speak"} {
		if got := search(query, second); !slices.Equal(got, []string{"a:speak@2"}) {
			t.Errorf("%s: %v", query, got)
		}
	}
	ix.Put(Document{ID: "a:speak", Variant: "2", Name: "speak", Description: "Says miaow."})
	ix.Delete("a:speak")
	if got := search("miaow", second); !slices.Equal(got, []string{"a:speak@2"}) || ix.Len() != 0 {
		t.Errorf("replaced: %v, and %d others", got, ix.Len())
	}
	if ix.Delete("a:speak@2"); len(search("miaow", second)) != 0 {
		t.Error("it is found after it was deleted")
	}
}
