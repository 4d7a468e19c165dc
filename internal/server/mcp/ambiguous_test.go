package mcp_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom/source"
)

const metaOfModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// ambiguous are messages that two readers could understand in two ways.
var ambiguous = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `},"params":{"name":"a__two","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","name":"a__two","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","\u006eame":"a__two","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},"arguments":{"x":1},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{"x":{"y":1,"y":2}},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","Name":"a__two","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},"Arguments":{"x":1},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","Params":{"name":"a__two"},"params":{"name":"a__one","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"METHOD":"tools/list","method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}}}`,
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}} {}`,
	`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","name":"a__two","arguments":{}}}]`,
	`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","Name":"a__two","arguments":{}}}]`,
}

func counting(f *fixture) *atomic.Int64 {
	ran := new(atomic.Int64)
	for _, id := range []string{"a:one", "a:two"} {
		f.add(id, func(context.Context, *source.Request) (*source.Output, error) {
			ran.Add(1)
			return &source.Output{Value: []byte("1")}, nil
		})
	}
	return ran
}

func TestAMessageThatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	ran := counting(f)
	post := func(text string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": modern, "Mcp-Method": "tools/call", "Mcp-Name": "a__one"} {
			req.Header.Set(name, v)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	for _, text := range ambiguous {
		if status, body := post(text); status != http.StatusBadRequest || !strings.Contains(body, "-32700") {
			t.Errorf("%s: %d %s", text, status, body)
		}
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("%d calls ran", n)
	}
	if status, body := post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__one","arguments":{},` + metaOfModern + `}}`); status != http.StatusOK || ran.Load() != 1 {
		t.Errorf("a plain message: %d %s", status, body)
	}
}

func TestOnStdioToo(t *testing.T) {
	t.Parallel()
	f := serve(t, direct(t))
	ran := counting(f)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = f.server.Stdio(ctx, in, out) }()
	lines := bufio.NewScanner(fromServer)
	answer := func() string {
		for lines.Scan() {
			if !strings.Contains(lines.Text(), `"notifications/`) {
				return lines.Text()
			}
		}
		return ""
	}
	for _, text := range ambiguous {
		if _, err := io.WriteString(toServer, text+"\n"); err != nil {
			t.Fatal(err)
		}
		if got := answer(); !strings.Contains(got, "-32700") {
			t.Errorf("%s: %s", text, got)
		}
	}
	if n := ran.Load(); n > 0 {
		t.Errorf("%d calls ran", n)
	}
	cancel()
	toServer.Close()
	fromServer.Close()
	<-ended
}
