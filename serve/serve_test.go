package serve_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/serve"
)

func TestAFunctionOfAProgramIsCalledOverHTTPAndMCP(t *testing.T) {
	t.Parallel()
	r, err := room.Open(t.Context(), room.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	type numbers struct{ A, B int }
	err = room.Register(r, "math:add", "Add two numbers.", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve.HTTP(ctx, r, serve.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { at <- "http://" + a.String() }})
	}()
	var url string
	select {
	case url = <-at:
	case err := <-ended:
		t.Fatal(err)
	}
	for path, exchange := range map[string]struct{ body, want string }{
		"/api/v1/call": {`{"tool":"math:add","arguments":{"A":2,"B":3}}`, `"value":5`},
		"/mcp":         {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"math__add","arguments":{"A":2,"B":3},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, `"text":"5"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(exchange.body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "math__add",
		} {
			req.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(text), exchange.want) {
			t.Errorf("%s: %s %s, %v", path, res.Status, text, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
