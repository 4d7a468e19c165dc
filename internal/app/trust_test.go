package app_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/taint"
)

func TestTheConfigSaysWhatIsPrivateWhatIsUntrustedAndWhatStaysInside(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	defer s.Close()
	r := roomOf(t, `
tools: {groups: {local: ["files:*"]}}
policy: {taint: deny, inside: ["group:local"]}
sources:
  pages: {labels: [untrusted], http: {base_url: "`+s.URL+`", tools: [{name: fetch}]}}
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
		{"pages:fetch", toolroom.StatusOK, "untrusted"},
		{"files:read_file", toolroom.StatusOK, "finance private"}, // stays inside
		{"local:count", toolroom.StatusOK, ""},                    // says so, and the config is believed
		{"pages:fetch", toolroom.StatusDenied, ""},                // asking is sending
	} {
		result := r.Run(t.Context(), toolroom.Call{Tool: c.tool, Session: "s", Identity: toolroom.Identity{Subject: "ann"}})
		if result.Status != c.status || strings.Join(result.Labels, " ") != c.labels {
			t.Errorf("%s: %s with labels %q, %v", c.tool, result.Status, result.Labels, result.Error)
		}
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "pages:fetch", Session: "another"}); result.Status != toolroom.StatusOK {
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
  pages: {labels: [untrusted], http: {base_url: "`+s.URL+`", tools: [{name: fetch}]}}
  files: {labels: [private], http: {base_url: "`+s.URL+`", tools: [{name: read}]}}
  mail:  {http: {base_url: "`+s.URL+`", tools: [{name: send}]}}
`, nil)
	for _, result := range r.Batch(t.Context(), []toolroom.Call{{Tool: "pages:fetch"}, {Tool: "files:read"}, {Tool: "mail:send"}}, 1) {
		if result.Error != nil {
			t.Errorf("%s: %v", result.Tool, result.Error)
		}
	}
	chain := r.Chain(t.Context(), toolroom.Call{}, []toolroom.Step{{Tool: "pages:fetch"}, {Tool: "files:read"}, {Tool: "mail:send"}})
	if chain.Status != toolroom.StatusDenied {
		t.Errorf("the chain ended with %s", chain.Status)
	}
}

func TestLabelsTravelWithStoredData(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text := "ok"
		if r.URL.Path == "/long" {
			text = strings.Repeat("a long private line\n", 10_000)
		}
		_, _ = io.WriteString(w, text)
	}))
	defer s.Close()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "toolroom.yaml")
	if err := os.WriteFile(config, []byte(`
policy: {taint: deny}
sources:
  diary: {labels: [private, untrusted], http: {base_url: "`+s.URL+`", tools: [{name: read, hints: {open_world: false}}, {name: long, path: /long, hints: {open_world: false}}]}}
  mail:  {http: {base_url: "`+s.URL+`", tools: [{name: send}]}}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := open(t, app.Options{Home: t.TempDir(), Helper: self, ConfigFile: config})
	ann := toolroom.Identity{Subject: "ann"}
	in := func(session, codeSession, code string) *toolroom.Result {
		t.Helper()
		args, err := json.Marshal(map[string]any{"language": "javascript", "session": codeSession, "code": code})
		if codeSession == "" {
			args, err = json.Marshal(map[string]any{"language": "javascript", "code": code})
		}
		if err != nil {
			t.Fatal(err)
		}
		return r.Run(t.Context(), toolroom.Call{Tool: "code:execute", Session: session, Identity: ann, Arguments: args})
	}
	ok := func(result *toolroom.Result) *toolroom.Result {
		t.Helper()
		if result.Error != nil {
			t.Fatal(result.Error)
		}
		return result
	}
	ok(in("one", "work", `v = await tools.diary.read(); return 1`))
	put := ok(in("one-b", "", `const a = await artifacts.put("notes.txt", String(await tools.diary.read())); return a.id ?? a.handle`))
	var handle string
	if err := put.Decode(&handle); err != nil {
		t.Fatal(err)
	}
	long := ok(r.Run(t.Context(), toolroom.Call{Tool: "diary:long", Session: "one-c", Identity: ann}))
	if len(long.Artifacts) == 0 {
		t.Fatal("the long result has no handle")
	}
	if _, err := r.Parts().Sessions.Fork(t.Context(), "ann", "work", "copy"); err != nil {
		t.Fatal(err)
	}
	var export bytes.Buffer
	if err := r.Parts().Sessions.Export("ann", "work", &export); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Parts().Sessions.Import(t.Context(), "ann", "imported", &export); err != nil {
		t.Fatal(err)
	}
	const send = `; await tools.mail.send(); return 1`
	for name, result := range map[string]*toolroom.Result{
		"variables":    in("two", "work", `String(v)`+send),
		"a fork":       in("three", "copy", `String(v)`+send),
		"an import":    in("four", "imported", `String(v)`+send),
		"an artifact":  in("five", "", `await artifacts.get("`+handle+`")`+send),
		"a cut result": in("six", "", `await artifacts.get("`+long.Artifacts[0].Handle+`")`+send),
	} {
		if result.Error == nil || !strings.Contains(result.Error.Message, "may not call mail:send: policy.taint") {
			t.Errorf("%s: %v", name, result.Err())
		}
	}
	// The session that has read them is tainted, too, and so is one that reads outside a call.
	for _, session := range []string{"two", "five"} {
		result := r.Run(t.Context(), toolroom.Call{Tool: "mail:send", Session: session, Identity: ann})
		if toolroom.CodeOf(result.Err()) != toolroom.CodeDenied {
			t.Errorf("session %s: %v", session, result.Err())
		}
	}
	if _, err := r.Parts().Artifacts.Read(taint.WithSession(t.Context(), "seven"), "ann", handle, artifact.ReadOptions{}); err != nil {
		t.Fatal(err)
	}
	if result := r.Run(t.Context(), toolroom.Call{Tool: "mail:send", Session: "seven", Identity: ann}); toolroom.CodeOf(result.Err()) != toolroom.CodeDenied {
		t.Errorf("after reading a page: %v", result.Err())
	}
	ok(in("eight", "clean", `1`+send))
}
