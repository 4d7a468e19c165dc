package relay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/server"
)

// serve starts a room with the upstream as a source, and returns its MCP endpoint.
func serve(t *testing.T, u *upstream) string {
	t.Helper()
	url, _ := serveAt(t, homeDir(t), u.URL)
	return url
}

// serveAt is like serve with a home, and serves until stop is called.
func serveAt(t *testing.T, home, upstream string) (url string, stop func()) {
	t.Helper()
	text := fmt.Sprintf("sources: {up: {names: plain, mcp: {url: %q}}}\n", upstream)
	if err := os.WriteFile(filepath.Join(home, "toolroom.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return serveHome(t, home)
}

// serveHome serves a home with its config.
func serveHome(t *testing.T, home string) (url string, stop func()) {
	t.Helper()
	config := filepath.Join(home, "toolroom.yaml")
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: config, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	address := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(ctx, r, server.Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) {
			address <- "http://" + a.String() + "/mcp"
		}})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r.Close()
	})
	t.Cleanup(stop)
	select {
	case url := <-address:
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		return url, stop
	case err := <-ended:
		t.Fatal(err)
		return "", nil
	}
}

// client is a client of one revision that sends raw messages.
type client struct {
	url, version, session string
	// can are the members of the client's capabilities, in any revision.
	can  string
	also string // further members of the client's _meta
	next int
}

const modern, legacy = "2026-07-28", "2025-11-25"

// metaMembers has the members of the clients' _meta.
const metaMembers = `"acme/trace":{"z":9007199254740993,"a":["é\u003c",1.50]},"io.modelcontextprotocol/odd":"<","q\"é":1.50`

// extraMembers has unknown members of the clients' params.
const extraMembers = `"zeta":{"z":9007199254740993,"b":"\u003c<é"},"al\"pha":[1.50,null]`

func connect(t *testing.T, url, version string) *client {
	t.Helper()
	c := &client{url: url, version: version}
	c.open(t)
	return c
}

// open opens the session of an older client.
func (c *client) open(t *testing.T) {
	t.Helper()
	if c.version != modern {
		c.ask(t, "initialize", "", `"protocolVersion":"`+c.version+`","capabilities":{`+c.can+`},"clientInfo":{"name":"raw","version":"1"}`)
		c.post(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "", "")
	}
}

// ask makes a request with the members of params, and returns the member result or error
// of the response.
func (c *client) ask(t *testing.T, method, name, params string) (result, failed json.RawMessage) {
	t.Helper()
	c.next++
	meta := metaMembers + c.also
	if c.version == modern {
		meta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{` + c.can + `},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"},` + meta
	}
	params = strings.TrimSuffix(`"_meta":{`+meta+"},"+params, ",")
	answer := c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, c.next, method, params), method, name)
	members, err := jsonx.Members(answer)
	if err != nil {
		t.Fatalf("%s: %v in %q", method, err, answer)
	}
	for _, m := range members {
		switch m.Name {
		case "result":
			result = m.Value
		case "error":
			failed = m.Value
		}
	}
	return result, failed
}

// send makes a request; the caller closes the body.
func (c *client) send(t *testing.T, body, method, name string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method != "initialize" {
		req.Header.Set("MCP-Protocol-Version", c.version)
	}
	if c.session != "" {
		req.Header.Set("Mcp-Session-Id", c.session)
	}
	if c.version == modern {
		req.Header.Set("Mcp-Method", method)
		if name != "" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return resp
}

func (c *client) post(t *testing.T, body, method, name string) []byte {
	t.Helper()
	resp := c.send(t, body, method, name)
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return bytes.TrimSpace(answer)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && bytes.Contains(data, []byte(`"id":`)) {
			return bytes.Clone(data)
		}
	}
	t.Fatalf("%s: the stream ended without an answer: %v", method, lines.Err())
	return nil
}

// withoutAdditions returns a result without the members that Toolroom adds: the owner, the time for
// which it is valid, and the outcome of the call. The rest is unchanged.
func withoutAdditions(t *testing.T, object json.RawMessage) string {
	t.Helper()
	members, err := jsonx.Members(object)
	if err != nil {
		t.Fatalf("%v in %q", err, object)
	}
	var rest []string
	for _, m := range members {
		value := string(m.Value)
		switch m.Name {
		case "resultType", "ttlMs", "cacheScope", "toolroom/result", "io.modelcontextprotocol/serverInfo":
			continue
		case "_meta":
			if value = withoutAdditions(t, m.Value); value == "{}" {
				continue
			}
		}
		rest = append(rest, fmt.Sprintf("%q:%s", m.Name, value))
	}
	return "{" + strings.Join(rest, ",") + "}"
}

// TestWhatAServerSendsReachesTheClientByteForByte tests servers of revision 2026-07-28 and
// of an older one, each with clients of both.
func TestWhatAServerSendsReachesTheClientByteForByte(t *testing.T) {
	t.Parallel()
	for _, u := range []bool{true, false} {
		up := newUpstream(t, u)
		url := serve(t, up)
		for _, version := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("server modern=%t, client %s", u, version), func(t *testing.T) {
				c := connect(t, url, version)
				for _, relayed := range []struct{ method, name, params, want string }{
					{"tools/call", "odd", `"name":"odd","arguments":{}`, oddResult},
					{"tools/call", "fails", `"name":"fails","arguments":{}`, oddFailure},
					{"resources/read", "odd:1", `"uri":"odd:1"`, oddContents},
					{"prompts/get", "ask", `"name":"ask"`, oddMessages},
					{"completion/complete", "", `"ref":{"type":"ref/prompt","name":"ask"},"argument":{"name":"who","value":"é"}`, oddCompletion},
				} {
					result, failed := c.ask(t, relayed.method, relayed.name, relayed.params)
					if failed != nil {
						t.Errorf("%s of %s failed: %s", relayed.method, relayed.name, failed)
						continue
					}
					if diff := cmp.Diff(relayed.want, withoutAdditions(t, result)); diff != "" {
						t.Errorf("%s of %s (-sent +received)\n%s", relayed.method, relayed.name, diff)
					}
				}
				for _, listed := range []struct{ method, definition string }{
					// A schema that nobody holds the tool's values to is not passed on.
					{"tools/list", strings.Replace(oddTool, `,"outputSchema":{"type":"object","x-out":1}`, "", 1)},
					{"resources/list", oddResource},
					{"resources/templates/list", oddTemplate},
					{"prompts/list", oddPrompt},
				} {
					result, failed := c.ask(t, listed.method, "", "")
					if !bytes.Contains(result, []byte(listed.definition)) {
						t.Errorf("%s does not have\n%s\nbut\n%s%s", listed.method, listed.definition, result, failed)
					}
				}
				if _, failed := c.ask(t, "tools/call", "refuses", `"name":"refuses","arguments":{}`); string(failed) != oddError {
					t.Errorf("the error came as\n%s, not as\n%s", failed, oddError)
				}
				const arguments = `{"z":9007199254740993,"extra":{"b":1.50,"a":"\u003c<é"},"a":"x"}`
				c.ask(t, "tools/call", "odd", `"name":"odd","arguments":`+arguments)
				if sent := up.last("tools/call"); !strings.Contains(sent, `"arguments":`+arguments) {
					t.Errorf("the arguments %s came as %s", arguments, sent)
				}
				for _, method := range []string{"tools/call", "resources/read", "prompts/get", "completion/complete"} {
					if sent := up.last(method); !strings.Contains(sent, metaMembers) {
						t.Errorf("what the client says in _meta of %s did not come: %s", method, sent)
					}
				}
			})
		}
	}
}

// Without Toolroom the client gets no response either, and a client's library reports an
// error.
func TestAStreamThatEndsWithoutAnAnswerIsNoResultOfTheTool(t *testing.T) {
	t.Parallel()
	for _, u := range []bool{true, false} {
		url := serve(t, newUpstream(t, u))
		for _, version := range []string{modern, legacy} {
			c := connect(t, url, version)
			result, failed := c.ask(t, "tools/call", "leaves", `"name":"leaves","arguments":{}`)
			if !bytes.HasPrefix(failed, []byte(`{"code":-32603,"message":"the MCP server up did not answer`)) {
				t.Errorf("server modern=%t, client %s: got %s%s", u, version, result, failed)
			}
		}
	}
}

// homeDir returns a new home folder. Unlike [testing.T.TempDir] it waits at the end of
// the test for writes that are still under way when the room has been closed.
func homeDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Error(err)
				return
			}
		}
	})
	return dir
}
