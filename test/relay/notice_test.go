package relay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// notifyingServer is a server that sends notifications outside of calls: on the stream of its
// session, or on that of a subscription.
type notifyingServer struct {
	*httptest.Server
	modern bool

	mu          sync.Mutex
	writeStream func(text string) // on the stream that was opened last
	opened      chan struct{}     // receives one value for each stream
	answered    chan struct{}     // receives one value for each response of its client
	ends        chan struct{}
}

func newNotifyingServer(t *testing.T, modern bool) *notifyingServer {
	u := &notifyingServer{modern: modern, opened: make(chan struct{}, 64), answered: make(chan struct{}, 64), ends: make(chan struct{})}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		close(u.ends)
		u.Close()
	})
	return u
}

// notify sends a notification in the format of the stream.
func (u *notifyingServer) notify(text string) {
	u.mu.Lock()
	write := u.writeStream
	u.mu.Unlock()
	write(text)
}

func (u *notifyingServer) stream(w http.ResponseWriter, r *http.Request, first string) {
	w.Header().Set("Content-Type", "text/event-stream")
	texts := make(chan string)
	fmt.Fprint(w, first)
	w.(http.Flusher).Flush()
	u.mu.Lock()
	u.writeStream = func(text string) {
		select {
		case texts <- text:
		case <-r.Context().Done():
		}
	}
	u.mu.Unlock()
	u.opened <- struct{}{}
	for {
		select {
		case text := <-texts:
			fmt.Fprintf(w, "data: %s\n\n", text)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		case <-u.ends:
			return
		}
	}
}

func (u *notifyingServer) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && !u.modern {
		u.stream(w, r, ": open\n\n")
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			Filter json.RawMessage `json:"notifications"`
		} `json:"params"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil || m.Method == "" {
		if m.Method == "" {
			u.answered <- struct{}{}
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method == "subscriptions/listen" && u.modern {
		u.stream(w, r, fmt.Sprintf(`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":%s,"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`+"\n\n", m.Params.Filter, m.ID))
		return
	}
	const capabilities = `{"tools":{},"resources":{"subscribe":true}}`
	w.Header().Set("Content-Type", "application/json")
	answer := `"result":{}`
	switch m.Method {
	case "server/discover":
		answer = `"error":{"code":-32601,"message":"no such method"}`
		if u.modern {
			answer = `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + capabilities + `,"ttlMs":0,"cacheScope":"private"}`
		}
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		answer = `"result":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"telling","version":"1"}}`
	case "tools/list":
		answer = `"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Go there","url":"https://example.com","elicitationId":"page"}}`+"\n\n")
		w.(http.Flusher).Flush()
		<-u.answered
		fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`+"\n\n", m.ID)
		return
	case "resources/list":
		answer = `"result":{"resources":[{"uri":"x:1","name":"one"}]}`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}

// openStream opens a client's stream: that of its session, or of a subscription to a resource. next returns its next message.
func (c *client) openStream(t *testing.T) (next func() string) {
	t.Helper()
	var resp *http.Response
	if c.version == modern {
		c.next++
		resp = c.send(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:1"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, c.next), "subscriptions/listen", "")
	} else {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set("Mcp-Session-Id", c.session)
		req.Header.Set("MCP-Protocol-Version", c.version)
		if resp, err = http.DefaultClient.Do(req); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		for lines.Scan() {
			data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: {"))
			if ok && !bytes.Contains(data, []byte("/list_changed")) { // which may arrive at any time
				return "{" + string(data)
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return ""
	}
}

// Unknown notifications reach clients with sessions. Updates of a resource reach the clients
// that subscribe to it.
func TestNotificationsOutsideOfCallsReachTheClients(t *testing.T) {
	t.Parallel()
	const (
		unknown = `{"jsonrpc":"2.0","method":"acme/<odd>","params":{"zeta":9007199254740993,"a":["<é\u003c",1.50]}}`
		line    = `{"jsonrpc":"2.0","method":"notifications/message","params":{"zeta":1.50,"level":"error","data":{"n":9007199254740993}}}`
		update  = `{"zeta":9007199254740993,"uri":"x:1","title":"<é\u003c","_meta":{"a/b":1.50%s}}`
	)
	for _, u := range []bool{true, false} {
		for _, version := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("server modern=%t, client %s", u, version), func(t *testing.T) {
				t.Parallel()
				up := newNotifyingServer(t, u)
				url, _ := serveAt(t, homeDir(t), up.URL)
				c := connect(t, url, version)
				if !u {
					<-up.opened
				}
				next := c.openStream(t)
				own := ""
				if version == modern {
					next() // it says what is listened to
					own = fmt.Sprintf(`,"io.modelcontextprotocol/subscriptionId":%d`, c.next)
				} else {
					for method, params := range map[string]string{"resources/subscribe": `"uri":"x:1"`, "logging/setLevel": `"level":"info"`} {
						if _, failed := c.ask(t, method, "", params); failed != nil {
							t.Fatal(string(failed))
						}
					}
				}
				theirs := ""
				if u {
					<-up.opened // for the resource
					theirs = `,"io.modelcontextprotocol/subscriptionId":2`
				}
				if version != modern {
					for _, text := range []string{unknown, line} {
						up.notify(text)
						if got := next(); got != text {
							t.Errorf("what was sent as\n%s\ncame as\n%s", text, got)
						}
					}
				}
				up.notify(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":` + fmt.Sprintf(update, theirs) + "}")
				want := `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":` + fmt.Sprintf(update, own) + "}"
				if got := next(); got != want {
					t.Errorf("the update is\n%s\nnot\n%s", got, want)
				}
			})
		}
	}
}

// The notification that a user has finished with a page (a URL elicitation) reaches only the
// client that was asked.
func TestTheEndOfAURLElicitationReachesOnlyTheClientThatWasAsked(t *testing.T) {
	t.Parallel()
	const (
		done  = `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"zeta":1.50,"elicitationId":"page","_meta":{"k":"<"}}}`
		other = `{"jsonrpc":"2.0","method":"acme/other"}`
	)
	up := newNotifyingServer(t, false)
	url, _ := serveAt(t, homeDir(t), up.URL)
	<-up.opened
	asked, bystander := &client{url: url, version: legacy, can: `"elicitation":{"url":{}}`}, &client{url: url, version: legacy, can: `"elicitation":{"url":{}}`}
	asked.open(t)
	bystander.open(t)
	hears, overhears := asked.openStream(t), bystander.openStream(t)
	resp := asked.send(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"do","arguments":{}}}`, "tools/call", "do")
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, "elicitation/create") {
			var m struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			asked.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept"}}`, m.ID), "", "")
		}
	}
	<-up.opened // the session for clients that support URL elicitation
	for _, text := range []string{done, done, other} {
		up.notify(text)
	}
	for _, want := range []string{done, other} {
		if got := hears(); got != want {
			t.Errorf("the one who was asked hears\n%s\nnot\n%s", got, want)
		}
	}
	if got := overhears(); got != other {
		t.Errorf("another hears\n%s", got)
	}
}
