package main

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/release"
	httpserver "github.com/toolroom/toolroom/internal/server"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/token"
)

// webClient is an HTTP client of a room's server.
type webClient struct {
	t       *testing.T
	base    string
	headers []string
}

// listen serves the room over HTTP.
func (w workshop) listen() webClient {
	w.t.Helper()
	ready, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- httpserver.Serve(w.t.Context(), w.App, httpserver.Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) { ready <- a }})
	}()
	w.t.Cleanup(func() { <-ended }) // after the test's context
	select {
	case at := <-ready:
		return webClient{t: w.t, base: "http://" + at.String()}
	case err := <-ended:
		ended <- err
		w.t.Fatal(err)
		return webClient{}
	}
}

// withHeader returns a client that also sends a header, unless its value is empty.
func (c webClient) withHeader(name, value string) webClient {
	if value != "" {
		c.headers = append(append([]string(nil), c.headers...), name, value)
	}
	return c
}

func (c webClient) request(method, path, body string) (status int, text string, header http.Header) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(c.headers); i += 2 {
		req.Header.Set(c.headers[i], c.headers[i+1])
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if path == "/mcp" {
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(got), resp.Header
}

// mcp sends MCP requests in one session and returns the last answer.
func (c webClient) mcp(requests ...string) string {
	c.t.Helper()
	_, _, header := c.request("POST", "/mcp", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	c = c.withHeader("Mcp-Session-Id", header.Get("Mcp-Session-Id")).withHeader("Mcp-Protocol-Version", "2025-11-25")
	c.request("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	answer := ""
	for _, r := range requests {
		_, answer, _ = c.request("POST", "/mcp", `{"jsonrpc":"2.0","id":1,`+r+`}`)
	}
	return answer
}

func (w workshop) release(tool, environment string, version int) {
	w.t.Helper()
	if _, err := w.Parts().Releases.Release(w.t.Context(), release.Order{Tool: tool, Environment: environment, Version: version, Force: true}, "ada"); err != nil {
		w.t.Fatal(err)
	}
}

func (w workshop) token(o token.Options) string {
	w.t.Helper()
	text, _, err := token.Create(w.t.Context(), w.Parts().Tokens, o)
	if err != nil {
		w.t.Fatal(err)
	}
	return text
}

// speakSource returns the code of a function whose versions differ in their text and schema.
func speakSource(says, parameter string) string {
	return "def speak(" + parameter + ": str = '') -> str:\n    \"\"\"Says " + says + ".\"\"\"\n    return '" + says + "'\n"
}

// newStagedWorkshop returns a room in which prod serves version 1 of fn:speak and test version 2;
// fn:later is only released to test, and version 3 of fn:speak never was.
func newStagedWorkshop(t *testing.T) workshop {
	t.Helper()
	w := newWorkshop(t, "expose: {mode: search}\nbuiltin: {cron: {}}\n")
	for _, source := range []string{speakSource("moo", "old"), speakSource("woof", "fresh"), speakSource("miaow", "never")} {
		if _, err := w.push("speak.py", source); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.push("later.py", "def later() -> str:\n    \"\"\"Serves only those who try.\"\"\"\n    return 'soon'\n"); err != nil {
		t.Fatal(err)
	}
	w.release("fn:speak", release.Prod, 1)
	w.release("fn:speak", release.Test, 2)
	w.release("fn:later", release.Test, 1)
	return w
}

func TestACallerSeesAndCallsWhatItsEnvironmentServes(t *testing.T) {
	t.Parallel()
	w := newStagedWorkshop(t)
	server := w.listen()
	ann := w.token(token.Options{Name: "ann"})
	staging := w.token(token.Options{Name: "staging", Environment: release.Test})
	live := w.token(token.Options{Name: "live", Environment: release.Prod})
	for _, c := range []struct {
		name, token, header string
		test                bool
	}{
		{name: "no choice"},
		{name: "header prod", header: "prod"},
		{name: "header test", header: "test", test: true},
		{name: "free token", token: ann},
		{name: "free token, header test", token: ann, header: "test", test: true},
		{name: "token of test", token: staging, test: true},
		{name: "token of test, header test", token: staging, header: "test", test: true},
		{name: "token of prod", token: live},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			as := server.withHeader(auth.EnvironmentHeader, c.header)
			as.t = t
			if c.token != "" {
				as = as.withHeader("Authorization", "Bearer "+c.token)
			}
			says, other, environment := "moo", "woof", "prod"
			if c.test {
				says, other, environment = other, says, "test"
			}
			see := func(what, text string, later bool) {
				t.Helper()
				if !strings.Contains(text, "Says "+says) || strings.Contains(text, "Says "+other) || strings.Contains(text, "later") != (later && c.test) {
					t.Errorf("%s: %.2000s", what, text)
				}
			}
			get := func(path string) string {
				t.Helper()
				_, text, _ := as.request("GET", "/api/v1"+path, "")
				return text
			}
			see("list", get("/tools?namespace=fn"), true)
			see("search", get("/search?q=says&namespace=fn"), false)
			for word, want := range map[string]bool{says: true, other: false, "miaow": false} {
				if text := get("/search?q=" + word + "&namespace=fn"); strings.Contains(text, `{"term":"`+word+`","field":"description"}`) != want { // it may also be known from use
					t.Errorf("search for %s: %s", word, text)
				}
			}
			see("empty search", get("/search?q=%20&namespace=fn"), true)
			see("describe", get("/tools/fn:speak"), false)
			see("declarations", get("/stubs?pattern=fn"), true)
			see("MCP search", as.mcp(`"method":"tools/call","params":{"name":"search_tools","arguments":{"query":"speak says","namespace":"fn"}}`), false)
			see("MCP describe", as.mcp(`"method":"tools/call","params":{"name":"describe_tools","arguments":{"tools":["fn:speak"]}}`), false)
			see("a program", as.mcp(`"method":"tools/call","params":{"name":"code:execute","arguments":{"language":"javascript","code":"return [await search_tools('says moo woof'), await describe_tool('fn:speak')]"}}`), false)
			if _, text, _ := as.request("POST", "/api/v1/call", `{"tool":"fn:speak"}`); !strings.Contains(text, says) {
				t.Errorf("call: %s", text)
			}
			if text := as.mcp(`"method":"tools/call","params":{"name":"fn__speak","arguments":{}}`); !strings.Contains(text, says) {
				t.Errorf("MCP call: %s", text)
			}
			if _, text, _ := as.request("POST", "/api/v1/call", `{"tool":"later"}`); strings.Contains(text, "soon") != c.test {
				t.Errorf("call of fn:later: %s", text)
			}
			// Receipts tell which environment served.
			_, text, _ := as.request("POST", "/api/v1/call", `{"tool":"fn:speak"}`)
			var r toolroom.Result
			if err := json.Unmarshal([]byte(text), &r); err != nil {
				t.Fatal(err)
			}
			got, err := w.Receipt(t.Context(), r.Call)
			if err != nil || got.Environment != environment || got.Release == nil || (got.Release.Version == 2) != c.test {
				t.Errorf("receipt %+v %v", got, err)
			}
		})
	}
}

func TestATokenIsBoundToItsEnvironment(t *testing.T) {
	t.Parallel()
	w := newStagedWorkshop(t)
	server := w.listen()
	staging := server.withHeader("Authorization", "Bearer "+w.token(token.Options{Name: "staging", Groups: []string{auth.Operators}, Environment: release.Test}))
	live := server.withHeader("Authorization", "Bearer "+w.token(token.Options{Name: "live", Environment: release.Prod}))
	denied := func(what string, c webClient, method, path, body string) {
		t.Helper()
		if status, text, _ := c.request(method, path, body); status != http.StatusForbidden || !strings.Contains(text, "bound") {
			t.Errorf("%s: %d %s", what, status, text)
		}
	}
	denied("the header names another", staging.withHeader(auth.EnvironmentHeader, "prod"), "POST", "/api/v1/call", `{"tool":"fn:speak"}`)
	denied("the header names another", live.withHeader(auth.EnvironmentHeader, "test"), "POST", "/mcp", `{}`)
	denied("a version that was only released elsewhere", live, "POST", "/api/v1/call", `{"tool":"fn:speak@2"}`)
	denied("a version that was only released elsewhere", staging, "POST", "/api/v1/call", `{"tool":"fn:speak@1"}`)
	denied("its description", staging, "GET", "/api/v1/tools/fn:speak@1", "")
	if status, text, _ := live.request("POST", "/api/v1/call", `{"tool":"fn:speak@1"}`); status != http.StatusOK {
		t.Errorf("its own version: %d %s", status, text)
	}
	// The hint names what this caller can do: a header would be denied.
	if status, text, _ := live.request("POST", "/api/v1/call", `{"tool":"fn:later"}`); status != http.StatusNotFound || !strings.Contains(text, "bound to prod") || strings.Contains(text, auth.EnvironmentHeader) || strings.Contains(text, "[test]") {
		t.Errorf("a tool of another environment: %d %s", status, text)
	}
	// It releases nothing, although its groups say that it is an operator.
	if status, text, _ := staging.request("POST", "/api/v1/releases", `{"tool":"fn:speak@2"}`); status != http.StatusForbidden {
		t.Errorf("release: %d %s", status, text)
	}
	// Whoever acts for it elsewhere cannot call in another environment either.
	r := w.Run(t.Context(), toolroom.Call{Tool: "fn:speak", Environment: release.Prod, Identity: toolroom.Identity{Subject: "staging", Environment: release.Test}})
	if r.Error == nil || r.Error.Code != toolroom.CodeDenied {
		t.Errorf("%s %v", r.Value, r.Error)
	}
}

func TestClientsOfAnEnvironmentHearOfItsReleases(t *testing.T) {
	t.Parallel()
	a := newAuthor(t)
	a.write("double.py", doubleSource)
	a.run("version 1", "tool", "push", "double.py")
	test, prod := a.connect("--env", "test"), a.connect()
	a.run("test serves version 1", "tool", "release", "double", "--env", "test")
	test.waitForNotification("notifications/tools/list_changed")
	if list := test.request("tools/list", "{}"); !strings.Contains(list, "Double a number") {
		t.Errorf("test lists %s", list)
	}
	if list := prod.request("tools/list", "{}"); strings.Contains(list, "Double a number") {
		t.Errorf("prod lists %s", list)
	}
	a.run("prod serves version 1", "tool", "promote", "double")
	prod.waitForNotification("notifications/tools/list_changed")
	a.write("double.py", strings.Replace(doubleSource, "Double a", "Twice the", 1))
	a.run("version 2", "tool", "push", "double.py")
	a.run("test serves version 2", "tool", "release", "double", "--env", "test")
	for !strings.Contains(test.request("tools/list", "{}"), "Twice the number") {
		test.waitForNotification("notifications/tools/list_changed") // the promotion was the one before
	}
	a.run("Twice the number", "describe", "double", "--env", "test")
	a.run("Double a number", "describe", "double")
	a.run("Twice the number", "search", "number", "--namespace", "fn", "--env", "test")
	a.run("Twice the number", "tools", "--namespace", "fn", "--env", "test")
	a.run("Twice the number", "stubs", "fn", "--env", "test")
	a.runFailing(5, []string{"tools", "--env", "nope"}, "there is no environment")
	a.run("tr_", "token", "create", "staging", "--env", "test")
	a.run("test", "token", "list")
	a.runFailing(5, []string{"token", "create", "x", "--env", "nope"}, "there is no environment")
}
