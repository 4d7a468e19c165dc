package room_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
)

func TestTheConfigSaysWhatIsPrivateWhatIsUntrustedAndWhatStaysInside(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer s.Close()
	r := roomOf(t, `
policy: {taint: deny, inside: ["files:*"]}
sources:
  web:   {labels: [untrusted], http: {base_url: "`+s.URL+`", tools: [{name: fetch}]}}
  files: {tool_labels: {"read_*": [private, finance]}, http: {base_url: "`+s.URL+`", tools: [{name: read_file}, {name: list}]}}
  local: {http: {base_url: "`+s.URL+`", tools: [{name: count, hints: {open_world: false}}]}}
`, nil)
	for _, c := range []struct {
		tool   string
		status toolroom.Status
		labels string
	}{
		{"files:list", toolroom.StatusOK, ""},
		{"files:read_file", toolroom.StatusOK, "finance private"},
		{"web:fetch", toolroom.StatusOK, "untrusted"},
		{"files:read_file", toolroom.StatusOK, "finance private"}, // stays inside
		{"local:count", toolroom.StatusOK, ""},                    // says so, and the config is believed
		{"web:fetch", toolroom.StatusDenied, ""},                  // asking is sending
	} {
		result := r.Run(t.Context(), toolroom.Call{Tool: c.tool, Session: "s", Identity: toolroom.Identity{Subject: "ann"}})
		if result.Status != c.status || strings.Join(result.Labels, " ") != c.labels {
			t.Errorf("%s: %s with labels %q, %v", c.tool, result.Status, result.Labels, result.Error)
		}
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "web:fetch", Session: "another"}); result.Status != toolroom.StatusOK {
		t.Errorf("another session: %v", result.Error)
	}
}

func TestABatchDoesNotReachItself(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer s.Close()
	r := roomOf(t, `
policy: {taint: deny}
sources:
  web:   {labels: [untrusted], http: {base_url: "`+s.URL+`", tools: [{name: fetch}]}}
  files: {labels: [private], http: {base_url: "`+s.URL+`", tools: [{name: read}]}}
  mail:  {http: {base_url: "`+s.URL+`", tools: [{name: send}]}}
`, nil)
	for _, result := range r.Batch(t.Context(), []toolroom.Call{{Tool: "web:fetch"}, {Tool: "files:read"}, {Tool: "mail:send"}}, 1) {
		if result.Error != nil {
			t.Errorf("%s: %v", result.Tool, result.Error)
		}
	}
	chain := r.Chain(t.Context(), toolroom.Call{}, []room.Step{{Tool: "web:fetch"}, {Tool: "files:read"}, {Tool: "mail:send"}})
	if chain.Status != toolroom.StatusDenied {
		t.Errorf("the chain ended with %s", chain.Status)
	}
}
