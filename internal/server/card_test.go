package server

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
)

// The patterns are those of the schema of SEP-2127.
var (
	cardName = regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`)
	cardURL  = regexp.MustCompile(`^https?://[^\s]+$`)
)

func TestTheCardSaysWhereTheServerIsAndNothingOfItsTools(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]struct{ name, url string }{
		"https://tools.example.com/": {"com.example.tools/toolroom", "https://tools.example.com/mcp"},
		"http://localhost:7070":      {"localhost/toolroom", "http://localhost:7070/mcp"},
		"http://127.0.0.1:7070":      {"127.0.0.1/toolroom", "http://127.0.0.1:7070/mcp"},
		"http://[::1]:7070":          {"--1/toolroom", "http://[::1]:7070/mcp"},
		"":                           {},
		"tools.example.com":          {},
	} {
		h, err := newCard(base, "1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			if want.name != "" {
				t.Errorf("%q has no card", base)
			}
			continue
		}
		get := func(tag string) *httptest.ResponseRecorder {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, cardPath, nil)
			r.Header.Set("If-None-Match", tag)
			h.ServeHTTP(w, r)
			return w
		}
		w := get("")
		var got card
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != want.name || !cardName.MatchString(got.Name) || got.Version != "1.2.3" || len(got.Remotes) != 1 ||
			got.Remotes[0].URL != want.url || !cardURL.MatchString(got.Remotes[0].URL) || got.Description == "" || len(got.Description) > 100 {
			t.Errorf("%s has the card %s", base, w.Body)
		}
		if w.Header().Get("Content-Type") != "application/mcp-server-card+json" || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("its header is %v", w.Header())
		}
		if again := get(w.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
			t.Errorf("the same card is sent again: %d %s", again.Code, again.Body)
		}
	}
}
