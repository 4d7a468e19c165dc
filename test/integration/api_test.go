//go:build integration

package integration

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/toolroom/toolroom"
)

// echoService is an HTTP service with one tool, echo, that returns its arguments. calls
// counts the requests.
func echoService(t *testing.T) (source object, calls *atomic.Int64) {
	calls = new(atomic.Int64)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		body, err := io.ReadAll(r.Body)
		if r.URL.Path != "/echo" || err != nil {
			http.Error(w, `{"error": "no such tool"}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}))
	t.Cleanup(service.Close)
	schema := object{"type": "object", "properties": object{"n": object{"type": "integer"}}}
	tools := []object{
		{"name": "echo", "description": "Answer with the arguments", "input_schema": schema, "guarantee": "keyed"},
		{"name": "missing", "input_schema": object{"type": "object"}},
	}
	return object{"http": object{"base_url": service.URL, "tools": tools}}, calls
}

// api is the HTTP API of a server, called with curl.
type api struct {
	r    *room
	base string
}

// in is the API within a subtest.
func (a api) in(t *testing.T) api { return api{a.r.in(t), a.base} }

// request makes a request and returns the status and the body.
func (a api) request(path string, args ...string) (status, body string) {
	a.r.t.Helper()
	out := a.r.runProgram("curl", append([]string{"-s", "-w", "\n%{http_code}", a.base + path}, args...)...)
	end := strings.LastIndexByte(out.stdout, '\n')
	if end < 0 {
		a.r.t.Fatalf("curl ended with %d: %s", out.code, out.stderr)
	}
	return out.stdout[end+1:], out.stdout[:end]
}

// want makes a request and checks the status.
func (a api) want(status, path string, args ...string) string {
	a.r.t.Helper()
	got, body := a.request(path, args...)
	if got != status {
		a.r.t.Errorf("curl %s %q: status %s, want %s: %.1000s", path, args, got, status, body)
	}
	return body
}

func TestHTTPAPIWithCurl(t *testing.T) {
	r := newRoom(t, nil)
	source, calls := echoService(t)
	r.configure(object{"filesystem": r.filesystem(), "service": source})
	a := api{r, r.serveListed().url + "/api/v1"}

	t.Run("lists, finds and calls tools", func(t *testing.T) {
		a := a.in(t)
		listed := decode[struct{ Tools []struct{ ID string } }](t, a.want("200", "/tools"))
		if len(listed.Tools) != 18 {
			t.Errorf("%d tools are listed, want 18", len(listed.Tools))
		}
		found := decode[struct{ Hits []struct{ ID string } }](t, a.want("200", "/search?q=read+text+file"))
		if len(found.Hits) == 0 || found.Hits[0].ID != "filesystem:read_text_file" {
			t.Errorf("the search found %v", found)
		}
		result := decode[toolroom.Result](t, a.want("200", "/tools/filesystem:read_text_file/call", "-d", `{"arguments": {"path": "`+r.files+`/README.md"}}`))
		if got, want := result.Text(), "The file of TestHTTPAPIWithCurl\n"; got != want {
			t.Errorf("the call answered %q, want %q", got, want)
		}
	})
	t.Run("names all mistakes in arguments", func(t *testing.T) {
		a := a.in(t)
		result := decode[toolroom.Result](t, a.want("422", "/call", "-d", `{"tool": "filesystem:read_text_file", "arguments": {"path": 1, "head": "x"}}`))
		problems, _ := result.Error.Details["problems"].([]any)
		if result.Error.Code != toolroom.CodeInvalidArguments || len(problems) != 2 {
			t.Errorf("the error is %+v", result.Error)
		}
	})
	t.Run("leaves big integers as they are", func(t *testing.T) {
		a := a.in(t)
		if body := a.want("200", "/call", "-d", `{"tool": "service:echo", "arguments": {"n": 9007199254740993}}`); !strings.Contains(body, `"value":{"n":9007199254740993}`) {
			t.Errorf("the result is %s", body)
		}
	})
	t.Run("streams events", func(t *testing.T) {
		a := a.in(t)
		body := a.want("200", "/call?stream=true", "-N", "-d", `{"tool": "system:info"}`)
		var events []string
		for line := range strings.Lines(body) {
			if event, ok := strings.CutPrefix(line, "event: "); ok {
				events = append(events, strings.TrimSpace(event))
			}
		}
		if !slices.Equal(events, []string{"called", "done"}) {
			t.Errorf("the events are %q", events)
		}
	})
	t.Run("runs a background call", func(t *testing.T) {
		a := a.in(t)
		accepted := decode[struct{ ID string }](t, a.want("202", "/call?async=true", "-d", `{"tool": "service:echo", "arguments": {"n": 7}}`))
		var call struct {
			State  string
			Result *toolroom.Result
		}
		eventually(t, "the call is done", func() bool {
			call = decode[struct {
				State  string
				Result *toolroom.Result
			}](t, a.want("200", "/calls/"+accepted.ID))
			return call.State == "done"
		})
		if call.Result == nil || string(call.Result.Value) != `{"n":7}` {
			t.Errorf("the result is %+v", call.Result)
		}
	})
	t.Run("repeats a keyed call from its record", func(t *testing.T) {
		a := a.in(t)
		key := []string{"-H", "Idempotency-Key: order-17", "-d", `{"tool": "service:echo", "arguments": {"n": 1}}`}
		before := calls.Load()
		first := decode[toolroom.Result](t, a.want("200", "/call", key...))
		again := decode[toolroom.Result](t, a.want("200", "/call", key...))
		if string(first.Value) != string(again.Value) || calls.Load() != before+1 {
			t.Errorf("%s, then %s, in %d requests", first.Value, again.Value, calls.Load()-before)
		}
		a.want("409", "/call", "-H", key[1], "-d", `{"tool": "service:echo", "arguments": {"n": 2}}`)
	})
	t.Run("requires a token of other machines", func(t *testing.T) {
		a := a.in(t)
		remote := []string{"-H", "X-Forwarded-For: 203.0.113.9"}
		head := a.want("401", "/tools", append(remote, "-i")...)
		if !strings.Contains(strings.ToLower(head), "www-authenticate: bearer") {
			t.Errorf("there is no challenge in %s", head)
		}
		a.want("401", "/tools", "-H", "Authorization: Bearer nonsense")
		status, _ := api{a.r, strings.TrimSuffix(a.base, "/api/v1")}.request("/mcp", append(remote, "-d", "{}")...)
		if status != "401" {
			t.Errorf("/mcp answered %s, want 401", status)
		}
		token := strings.TrimSpace(a.r.toolroom(0, "token", "create", "ann").stdout)
		a.want("200", "/tools", append(remote, "-H", "Authorization: Bearer "+token)...)
	})
	t.Run("refuses a body of 100 MB", func(t *testing.T) {
		a := a.in(t)
		huge := filepath.Join(t.TempDir(), "huge.json")
		if err := os.WriteFile(huge, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(huge, 100<<20); err != nil {
			t.Fatal(err)
		}
		a.want("413", "/call", "--data-binary", "@"+huge)
		a.want("200", "/tools")
	})
	t.Run("answers bad requests with a reason", func(t *testing.T) {
		a := a.in(t)
		for body, want := range map[string]string{
			`{"tool": "nothing:here"}`: "404",
			`{"tool": `:                "422",
			"{\"tool\": \"system:info\", \"arguments\": {\"a\": \"\xff\"}}": "422",
			`{"tool": "service:echo", "arguments": {"n": 1, "n": 2}}`:       "422",
			`{"tool": "service:echo", "arguments": [1]}`:                    "422",
		} {
			problem := decode[object](t, a.want(want, "/call", "--data-binary", body))
			if len(problem) == 0 {
				t.Errorf("%q: the answer is empty", body)
			}
		}
	})
	t.Run("describes itself", func(t *testing.T) {
		a := a.in(t)
		document := decode[struct {
			OpenAPI string
			Paths   object
		}](t, a.want("200", "/openapi.json"))
		if document.OpenAPI != "3.1.0" || document.Paths["/api/v1/call"] == nil {
			t.Errorf("the document is of %s and has %d paths", document.OpenAPI, len(document.Paths))
		}
	})
}

func TestHTTPServiceTellsItsFailuresApart(t *testing.T) {
	r := newRoom(t, nil)
	source, _ := echoService(t)
	gone := object{"http": object{"base_url": "http://127.0.0.1:1", "tools": []object{{"name": "echo", "input_schema": object{"type": "object"}}}}}
	r.configure(object{"service": source, "gone": gone})
	if got := r.callJSON(0, "service:echo", `{"n": 9007199254740993}`); !strings.Contains(string(got.Value), "9007199254740993") {
		t.Errorf("echo answered %s", got.Value)
	}
	codes := fmt.Sprint(r.callJSON(1, "service:missing", `{}`).Error.Code, " ", r.callJSON(1, "gone:echo", `{}`).Error.Code)
	if codes != "execution_failed upstream_unavailable" && codes != "upstream_error upstream_unavailable" {
		t.Errorf("the codes are %s", codes)
	}
}
