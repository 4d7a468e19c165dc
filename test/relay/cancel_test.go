package relay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// hangingServer is a server of an older revision whose calls end when the client cancels them.
// Its tool "asks" first asks a question, and withdraws it.
type hangingServer struct {
	*httptest.Server
	began         chan struct{} // receives one value for each call
	withdraw      chan struct{}
	notifications chan string // the params of its client's notifications, except the first
	errors        chan string // the error of a client that does not answer
}

const (
	whyCancelled = `"reason":"<é\u003c","zeta":9007199254740993,"_meta":{"a/b":1.50}`
	oddRefusal   = `{"code":-1,"message":"not <now>","zeta":{"n":9007199254740993},"data":{"a":1.50}}`
)

func newHangingServer(t *testing.T) *hangingServer {
	u := &hangingServer{began: make(chan struct{}, 8), withdraw: make(chan struct{}), notifications: make(chan string, 8), errors: make(chan string, 8)}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(func() {
		u.CloseClientConnections()
		u.Close()
	})
	return u
}

func (u *hangingServer) serve(w http.ResponseWriter, r *http.Request) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Error  json.RawMessage `json:"error"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	if m.ID == nil || m.Method == "" {
		switch {
		case m.Method == "notifications/cancelled" || m.Method == "notifications/progress":
			u.notifications <- string(m.Params)
		case m.Error != nil:
			u.errors <- string(m.Error)
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	const capabilities = `{"tools":{},"prompts":{}}`
	w.Header().Set("Content-Type", "application/json")
	answer := `"result":{}`
	switch m.Method {
	case "server/discover":
		answer = `"error":{"code":-32601,"message":"no such method"}`
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "s")
		answer = `"result":{"protocolVersion":"2025-11-25","capabilities":` + capabilities + `,"serverInfo":{"name":"hanging","version":"1"}}`
	case "tools/list":
		answer = `"result":{"tools":[{"name":"hangs","inputSchema":{"type":"object"}},{"name":"asks","inputSchema":{"type":"object"}}]}`
	case "prompts/list":
		answer = `"result":{"prompts":[{"name":"hangs"}]}`
	case "tools/call", "prompts/get":
		if strings.Contains(string(m.Params), `"asks"`) {
			u.askQuestion(w, m.ID)
			return
		}
		u.began <- struct{}{}
		<-r.Context().Done()
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, m.ID, answer)
}

func (u *hangingServer) askQuestion(w http.ResponseWriter, id json.RawMessage) {
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(format string, args ...any) {
		fmt.Fprintf(w, "data: "+format+"\n\n", args...)
		w.(http.Flusher).Flush()
	}
	say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}},"_meta":{"progressToken":"p"}}}`)
	select {
	case <-u.withdraw:
		say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{%s,"requestId":"q"}}`, whyCancelled)
		<-u.withdraw
	case refusal := <-u.errors:
		u.notifications <- refusal
	}
	say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, id)
}

// TestWhyAClientCancelsReachesTheServer tests calls and the methods that the SDK serves,
// over HTTP and on stdio, with clients of revision 2026-07-28 and of an older one.
func TestWhyAClientCancelsReachesTheServer(t *testing.T) {
	t.Parallel()
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{%s"requestId":"c",` + whyCancelled + `}}`
	const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}},"io.modelcontextprotocol/clientInfo":{"name":"raw","version":"1"}}`
	check := func(t *testing.T, up *hangingServer) {
		t.Helper()
		if said := <-up.notifications; !strings.Contains(said, whyCancelled) || strings.Contains(said, `"c"`) {
			t.Errorf("the server hears %s", said)
		}
	}
	for _, method := range []string{"tools/call", "prompts/get"} {
		call := `{"jsonrpc":"2.0","id":"c","method":"` + method + `","params":{"name":"hangs"%s}}`
		t.Run("HTTP "+method, func(t *testing.T) {
			t.Parallel()
			up := newHangingServer(t)
			url, _ := serveAt(t, homeDir(t), up.URL)
			c := connect(t, url, legacy)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				resp := c.send(t, fmt.Sprintf(call, ""), method, "hangs")
				_, _ = io.Copy(io.Discard, resp.Body) // a cancelled call may have no response
				resp.Body.Close()
			}()
			<-up.began
			(&client{url: c.url, version: c.version, session: c.session}).post(t, fmt.Sprintf(cancel, ""), "", "")
			check(t, up)
			<-ended
		})
		t.Run("stdio "+method, func(t *testing.T) {
			t.Parallel()
			up := newHangingServer(t)
			w := onStdio(t, &upstream{Server: up.Server})
			w.send(fmt.Sprintf(call, ","+modernMeta))
			<-up.began
			w.send(fmt.Sprintf(cancel, ""))
			check(t, up)
		})
	}
}

// startAskingCall makes a client's call of the tool that asks, and returns the question.
func startAskingCall(t *testing.T, up *hangingServer) (c *client, id string, lines *bufio.Scanner) {
	t.Helper()
	url, _ := serveAt(t, homeDir(t), up.URL)
	c = &client{url: url, version: legacy, can: `"elicitation":{}`}
	c.open(t)
	resp := c.send(t, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"asks","arguments":{}}}`, "tools/call", "asks")
	t.Cleanup(func() { resp.Body.Close() })
	lines = bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && strings.Contains(data, "elicitation/create") {
			var m struct{ ID json.RawMessage }
			if err := json.Unmarshal([]byte(data), &m); err != nil {
				t.Fatal(err)
			}
			return c, string(m.ID), lines
		}
	}
	t.Fatalf("no question arrived: %v", lines.Err())
	return nil, "", nil
}

func TestAQuestionThatAServerTakesBackIsTakenBackFromTheClient(t *testing.T) {
	t.Parallel()
	up := newHangingServer(t)
	_, id, lines := startAskingCall(t, up)
	up.withdraw <- struct{}{}
	defer close(up.withdraw)
	want := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{` + whyCancelled + `,"requestId":` + id + `}}`
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
			if data != want {
				t.Errorf("the client hears\n%s\nnot\n%s", data, want)
			}
			return
		}
	}
	t.Fatalf("the client hears nothing: %v", lines.Err())
}

func TestTheErrorOfAClientThatDoesNotAnswerReachesTheServer(t *testing.T) {
	t.Parallel()
	up := newHangingServer(t)
	c, id, _ := startAskingCall(t, up)
	c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, oddRefusal), "", "")
	if got := <-up.notifications; got != oddRefusal {
		t.Errorf("the server hears\n%s\nnot\n%s", got, oddRefusal)
	}
}

// The progress of an answer reaches only the server that asked, and only while the question
// is open.
func TestTheProgressOfAnAnswerReachesOnlyTheServerThatAsked(t *testing.T) {
	t.Parallel()
	const progress = `{"zeta":9007199254740993,"progressToken":"p","progress":1.50,"message":"<é\u003c"}`
	up := newHangingServer(t)
	c, id, _ := startAskingCall(t, up)
	for _, said := range []string{`{"progressToken":"q","progress":1}`, progress} {
		c.post(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":`+said+`}`, "", "")
	}
	if got := <-up.notifications; got != progress {
		t.Errorf("the server hears\n%s\nnot\n%s", got, progress)
	}
	c.post(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, oddRefusal), "", "")
	if got := <-up.notifications; got != oddRefusal {
		t.Errorf("then it hears\n%s", got)
	}
}
