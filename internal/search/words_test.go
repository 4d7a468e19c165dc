package search

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestTextIsSplitIntoWords(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string
		want []string
	}{
		{"create_issue", []string{"create", "issue"}},
		{"createIssue", []string{"create", "issue", "createissue"}},
		{"HTTPServer", []string{"http", "server", "httpserver"}},
		{"getHTTPServerName", []string{"get", "http", "server", "name"}},
		{"file.read-text:now", []string{"file", "read", "text", "now"}},
		{"sha256", []string{"sha", "sha256"}},
		{"k8s", []string{"k", "s", "k8s"}},
		{"in 30 days", []string{"in", "30", "days"}},
		{"Größe ÉCOLE", []string{"große", "ecole"}},
		{"ПогодаВЧас", []string{"погода", "в", "час", "погодавчас"}},
		{"天气预报", []string{"天气", "气预", "预报"}},
		{"iPhone手机", []string{"i", "phone", "iphone", "手机"}},
		{"サーバー", []string{"サー", "ーバ", "バー"}},
		{"날씨", []string{"날씨"}},
		{"图", []string{"图"}},
		{"", nil},
		{"--__::", nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, splitWords(tt.text)); diff != "" {
			t.Errorf("words(%q): -want +got\n%s", tt.text, diff)
		}
	}
}

func TestFormsOfAWordShareTheirStem(t *testing.T) {
	t.Parallel()
	for _, forms := range []string{
		"file files filed filing", "query queries querying queried", "create creates created creating",
		"address addresses addressing", "status statuses", "box boxes", "cache caches caching cached",
		"run running", "name names named naming", "organize organizing", "enable enabled", "movie movies",
		"page pages paging",
	} {
		all := strings.Fields(forms)
		for _, form := range all {
			if stem(form) != stem(all[0]) {
				t.Errorf("stem(%s) = %s, stem(%s) = %s", form, stem(form), all[0], stem(all[0]))
			}
		}
	}
}

func TestDifferentWordsKeepTheirStems(t *testing.T) {
	t.Parallel()
	for _, pair := range []string{"news new", "status state", "plane plan", "data date", "care car", "string str", "feed fee", "bus bu", "analysis analyst"} {
		a, b, _ := strings.Cut(pair, " ")
		if stem(a) == stem(b) {
			t.Errorf("%s and %s share the stem %s", a, b, stem(a))
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"createIssue", "HTTPServer2", "天气 weather", "e\u0301", "\xff\x00", "ﬁle İstanbul ǅ", strings.Repeat("aB", 100), "ﷺ"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, word := range splitWords(text) {
			switch n := utf8.RuneCountInString(word); {
			case !utf8.ValidString(word):
				t.Errorf("words(%q) gives invalid UTF-8 %q", text, word)
			case n == 0 || n > maxWord:
				t.Errorf("words(%q) gives a word of %d runes", text, n)
			case word != strings.ToLower(word):
				t.Errorf("words(%q) gives %q, not lower case", text, word)
			}
			if s := stem(word); s == "" || len(s) > len(word)+1 {
				t.Errorf("stem(%q) = %q", word, s)
			}
		}
		// A tool is always found by its own name.
		ix := Index{}
		ix.Put(Document{ID: "other", Name: "other"}, Document{ID: "it", Name: text})
		if name := strings.TrimSpace(text); name == text && name != "" && len(name) < maxQuery && name != "other" {
			if hits := ix.Search(text, Options{}); len(hits) == 0 || hits[0].ID != "it" {
				t.Errorf("Search(%q) = %v", text, hits)
			}
		}
	})
}
