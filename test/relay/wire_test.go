package relay

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server"
)

// streamClient is a client on a pair of streams. It sends lines and receives messages.
type streamClient struct {
	send func(message string)
	next func() []byte
	// oneMessage requires all responses in one message.
	oneMessage bool
}

// onStdio starts a room with the upstream, on a pair of pipes.
func onStdio(t *testing.T, u *upstream) *streamClient {
	t.Helper()
	r := openRoom(t, u, "")
	ours, in := io.Pipe()
	out, theirs := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- server.ServeStdio(t.Context(), r, ours, theirs, server.Options{Version: "test"}) }()
	t.Cleanup(func() {
		in.Close()
		out.Close()
		<-ended
		r.Close()
	})
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &streamClient{
		send: func(message string) {
			if _, err := io.WriteString(in, message+"\n"); err != nil {
				t.Error(err)
			}
		},
		next: func() []byte {
			if !lines.Scan() {
				t.Fatalf("the stream has ended: %v", lines.Err())
			}
			return bytes.Clone(lines.Bytes())
		},
	}
}

// onSSE starts a room with the upstream, on the two endpoints of 2024-11-05.
func onSSE(t *testing.T, u *upstream) *streamClient {
	t.Helper()
	r := openRoom(t, u, "server: {mcp: {sse: true}}\n")
	address, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- server.Serve(t.Context(), r, server.Options{Listen: "127.0.0.1:0", Version: "test", Started: func(a net.Addr) {
			address <- "http://" + a.String()
		}})
		r.Close()
	}()
	var base string
	select {
	case base = <-address:
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(func() { <-ended }) // the test's context has ended by then
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	next := func() []byte {
		for lines.Scan() {
			if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok {
				return bytes.Clone(data)
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return nil
	}
	endpoint := base + string(next())
	return &streamClient{next: next, send: func(message string) {
		resp, err := http.Post(endpoint, "application/json", strings.NewReader(message))
		if err != nil {
			t.Error(err)
			return
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusAccepted {
			t.Errorf("%s was answered with %s", message, resp.Status)
		}
	}}
}

func openRoom(t *testing.T, u *upstream, more string) *app.App {
	t.Helper()
	home := homeDir(t)
	text := fmt.Sprintf("%ssources: {up: {names: plain, mcp: {url: %q}}}\n", more, u.URL)
	if err := os.WriteFile(home+"/toolroom.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := app.Open(t.Context(), app.Options{Home: home, ConfigFile: home + "/toolroom.yaml", Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

// readResults waits for the responses to requests, in one message or in several, and returns
// their results without the members that Toolroom adds.
func (w *streamClient) readResults(t *testing.T, ids ...string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for len(got) < len(ids) {
		message := w.next()
		all := []json.RawMessage{message}
		if message[0] == '[' {
			if err := json.Unmarshal(message, &all); err != nil {
				t.Fatal(err)
			}
		}
		for _, one := range all {
			var m struct {
				ID     json.RawMessage `json:"id"`
				Method string          `json:"method"`
				Result json.RawMessage `json:"result"`
			}
			if err := json.Unmarshal(one, &m); err != nil {
				t.Fatal(err)
			}
			if m.Method == "" && slices.Contains(ids, string(m.ID)) {
				if m.Result == nil {
					t.Fatalf("request %s failed: %s", m.ID, one)
				}
				got[string(m.ID)] = withoutAdditions(t, m.Result)
			}
		}
		if w.oneMessage && len(got) != len(ids) {
			t.Fatalf("the answers came one by one: %s", message)
		}
	}
	return got
}

// TestOldTransportsRelayByteForByte tests the transports that do not send each response to
// its own request: with single messages, and with the batches of 2025-03-26, whose responses
// come in one message.
func TestOldTransportsRelayByteForByte(t *testing.T) {
	t.Parallel()
	const arguments = `{"z":9007199254740993,"a":"\u003c<é"}`
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"odd","arguments":` + arguments + `,"_meta":{` + metaMembers + `},` + extraMembers + `}}`
	prompt := `{"jsonrpc":"2.0","id":3,"method":"prompts/get","params":{"name":"ask","_meta":{` + metaMembers + `},` + extraMembers + `}}`
	for name, connect := range map[string]func(*testing.T, *upstream) *streamClient{"stdio": onStdio, "HTTP+SSE": onSSE} {
		for _, modern := range []bool{true, false} {
			for _, batch := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s, server modern=%t, batch=%t", name, modern, batch), func(t *testing.T) {
					t.Parallel()
					up := newUpstream(t, modern)
					w := connect(t, up)
					w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
					w.readResults(t, "1")
					w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
					if batch {
						w.send("[" + call + "," + prompt + "]")
					} else {
						w.send(call)
						w.send(prompt)
					}
					if batch {
						w.oneMessage = true
					}
					got := w.readResults(t, "2", "3")
					if diff := cmp.Diff(map[string]string{"2": oddResult, "3": oddMessages}, got); diff != "" {
						t.Errorf("(-sent +received)\n%s", diff)
					}
					for _, method := range []string{"tools/call", "prompts/get"} {
						if sent := up.last(method); !strings.Contains(sent, metaMembers) || !strings.Contains(sent, extraMembers) {
							t.Errorf("what the client says in %s did not come: %s", method, sent)
						}
					}
					if sent := up.last("tools/call"); !strings.Contains(sent, `"arguments":`+arguments) {
						t.Errorf("the arguments came as %s", sent)
					}
				})
			}
		}
	}
}

// Invalid messages of a batch do not block the others.
func TestABatchWithInvalidRequestsIsAnsweredWhole(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T, *upstream) *streamClient{"stdio": onStdio, "HTTP+SSE": onSSE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := connect(t, newUpstream(t, true))
			w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
			w.readResults(t, "1")
			w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			// The status of a POST is that of the first.
			w.send(`[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"odd","arguments":{}}},5,{"jsonrpc":"2.0","id":"x","method":"no/such"}]`)
			var all []struct {
				ID    json.RawMessage `json:"id"`
				Error *struct {
					Code int `json:"code"`
				} `json:"error"`
			}
			if message := w.next(); json.Unmarshal(message, &all) != nil || len(all) != 3 {
				t.Fatalf("the answer is %s", message)
			}
			for _, one := range all {
				if (one.Error == nil) != (string(one.ID) == "2") {
					t.Errorf("%s is answered with %+v", one.ID, one.Error)
				}
			}
		})
	}
}
