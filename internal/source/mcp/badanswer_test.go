package mcp_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/source"
)

func TestOneBadAnswerEndsOneCall(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]http.HandlerFunc{
		"status 500":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no JSON":      func(w http.ResponseWriter, _ *http.Request) { answer(w, "<html>") },
		"another type": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") },
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"jso")
			panic(http.ErrAbortHandler)
		},
		"nothing on a stream": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			arrived, release := make(chan struct{}), make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
					Params struct{ Name string }
				}
				if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&m) != nil {
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				switch {
				case m.Method == "initialize":
					w.Header().Set("Mcp-Session-Id", "one")
					answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}}`, m.ID))
				case len(m.ID) == 0:
					w.WriteHeader(http.StatusAccepted)
				case m.Params.Name == "bad":
					bad(w, r)
				case m.Params.Name == "slow":
					close(arrived)
					<-release
					answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID))
				case m.Method == "ping":
					answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID))
				default:
					answer(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID))
				}
			}))
			t.Cleanup(server.Close)
			s := mcp.New(mcp.Config{Namespace: "up", URL: server.URL})
			t.Cleanup(func() { s.Close() })
			slow := make(chan error, 1)
			do := func(tool string) error {
				_, err := s.Call(t.Context(), &source.Request{Tool: toolroom.MustParseID("up:" + tool), Arguments: json.RawMessage("{}"), Emit: func(toolroom.Event) {}})
				return err
			}
			go func() { slow <- do("slow") }()
			<-arrived
			if err := do("bad"); err == nil {
				t.Error("the bad answer was taken")
			}
			select {
			case err := <-slow:
				t.Fatalf("the other call ended: %v", err)
			case <-time.After(100 * time.Millisecond):
			}
			close(release)
			if err := <-slow; err != nil {
				t.Errorf("the other call: %v", err)
			}
		})
	}
}

func answer(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}
