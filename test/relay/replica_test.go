package relay

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replicas are two servers of one home that get requests in turn, as from a load balancer
// without affinity.
func replicas(t *testing.T, upstream string) (urls [2]string, stop func()) {
	t.Helper()
	home := homeDir(t)
	urls[0], stop = serveAt(t, home, upstream)
	urls[1], _ = serveHome(t, home)
	return urls, stop
}

// Clients can also listen to a session, and end it, at every server.
func TestASessionIsGoodAtEveryServerOfAHome(t *testing.T) {
	t.Parallel()
	urls, stop := replicas(t, newUpstream(t, false).URL)
	c := connect(t, urls[0], legacy)
	for i := range 4 {
		c.url = urls[i%2]
		result, failed := c.ask(t, "tools/call", "odd", `"name":"odd","arguments":{}`)
		if failed != nil || withoutAdditions(t, result) != oddResult {
			t.Errorf("server %d answers %s%s", i%2, result, failed)
		}
		if _, failed := c.ask(t, "prompts/list", "", ""); failed != nil {
			t.Errorf("server %d fails: %s", i%2, failed)
		}
	}
	// When the session's server is gone, the client learns that it must initialize again.
	stop()
	c.url = urls[1]
	resp := c.send(t, `{"jsonrpc":"2.0","id":99,"method":"ping"}`, "ping", "")
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("after the end of its server a session is answered with %s", resp.Status)
	}
}

// A question can be answered at every server, although the call waits in one of them.
func TestAQuestionIsAnsweredAtEveryServerOfAHome(t *testing.T) {
	t.Parallel()
	for _, u := range []bool{true, false} {
		up := newUpstream(t, u)
		urls, _ := replicas(t, up.URL)
		c := &client{url: urls[0], version: modern, can: `"elicitation":{},"sampling":{},"roots":{}`}
		result, failed := c.ask(t, "tools/call", "asks", `"name":"asks","arguments":{}`)
		answers := map[string]string{"elicitation/create": oddFilled, "sampling/createMessage": oddSample, "roots/list": oddFolders}
		for round := 1; round < 4; round++ {
			var asked struct {
				Type      string `json:"resultType"`
				State     string `json:"requestState"`
				Questions map[string]struct {
					Method string `json:"method"`
				} `json:"inputRequests"`
			}
			if failed != nil || json.Unmarshal(result, &asked) != nil {
				t.Fatalf("server modern=%t: %s%s", u, result, failed)
			}
			if asked.Type != "input_required" {
				break
			}
			var given []string
			for key, q := range asked.Questions {
				given = append(given, fmt.Sprintf("%q:%s", key, answers[q.Method]))
			}
			c.url = urls[round%2]
			result, failed = c.ask(t, "tools/call", "asks", fmt.Sprintf(`"name":"asks","arguments":{},"requestState":%q,"inputResponses":{%s}`, asked.State, strings.Join(given, ",")))
		}
		if failed != nil || withoutAdditions(t, result) != oddResult {
			t.Errorf("server modern=%t: the call ends with %s%s", u, result, failed)
		}
		if got := up.last("form"); got != oddFilled {
			t.Errorf("server modern=%t hears %s", u, got)
		}
	}
}

// A program on the machine that finds the address is refused, whatever origin its request
// claims.
func TestOnlyServersOfAHomeForwardRequests(t *testing.T) {
	t.Parallel()
	home := homeDir(t)
	serveAt(t, home, newUpstream(t, true).URL)
	known, err := filepath.Glob(filepath.Join(home, "replicas", "*"))
	if err != nil || len(known) != 1 {
		t.Fatal(known, err)
	}
	address, err := os.ReadFile(known[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, proof := range []string{"", "x", strings.Repeat("0", 64)} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+string(address)+"/api/v1/sources", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Toolroom-Replica", proof)
		req.Header.Set("Toolroom-Remote", "127.0.0.1:1")
		req.Header.Set("Toolroom-Local", "127.0.0.1:2")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("with the proof %q it is answered %s: %s", proof, resp.Status, body)
		}
	}
}

// A killed server has left its file, and another program listens at its address.
func TestNothingIsSentToAnAddressThatAnotherProgramHasTaken(t *testing.T) {
	t.Parallel()
	got := make(chan http.Header, 8)
	foreign := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer foreign.Close()
	home := homeDir(t)
	url, _ := serveAt(t, home, newUpstream(t, true).URL)
	left := filepath.Join(home, "replicas", "abcdefghijkl")
	if err := os.WriteFile(left, []byte(strings.TrimPrefix(foreign.URL, "http://")), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &client{url: url, version: legacy, session: "abcdefghijkl.X"}
	resp := c.send(t, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "ping", "")
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("the session is answered with %s", resp.Status)
	}
	foreign.Close()
	close(got)
	for header := range got {
		if header.Get("Mcp-Session-Id") != "" || header.Get("Toolroom-Replica") != "" || header.Get("Content-Type") != "" {
			t.Errorf("the program was sent %v", header)
		}
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("the file is still there")
	}
}
