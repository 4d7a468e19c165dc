package httpapi_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpapi"
)

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// FuzzAPathValueStaysOneSegment looks for an argument that reaches another path
// than the template's.
func FuzzAPathValueStaysOneSegment(f *testing.F) {
	for _, seed := range []string{"1", "..", "a/b", "%2e%2e", "?x=1", "#x", "a\x00b", "ü"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		var asked string
		s := open(t, httpapi.Config{
			BaseURL: "http://example.com/base",
			Tools:   []httpapi.Tool{{Name: "t", Method: "GET", Path: "/items/{id}/end"}},
		}, httpapi.Options{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			asked = r.URL.RequestURI()
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
		})})
		arguments, err := json.Marshal(map[string]string{"id": id})
		if err != nil {
			t.Skip()
		}
		_, err = call(t, s, "t", string(arguments), "")
		if err != nil {
			if toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		segments := strings.Split(asked, "/")
		if len(segments) != 5 || segments[4] != "end" || segments[3] == ".." || strings.ContainsAny(asked, "?# ") {
			t.Fatalf("%q reached %s", id, asked)
		}
	})
}
