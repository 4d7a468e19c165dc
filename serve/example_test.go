package serve_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/serve"
)

// greeter opens a room with one tool.
func greeter(ctx context.Context) *room.Room {
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		panic(err)
	}
	type in struct {
		Name string `json:"name"`
	}
	err = room.Register(r, "greet:hello", "Greet somebody.", func(_ context.Context, in in) (string, error) { return "Hello, " + in.Name, nil })
	if err != nil {
		panic(err)
	}
	return r
}

func ExampleHTTP() {
	ctx, stop := context.WithCancel(context.Background())
	r := greeter(ctx)
	defer r.Close()
	address, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve.HTTP(ctx, r, serve.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { address <- a }})
	}()
	call := `{"tool": "greet:hello", "arguments": {"name": "Ann"}}`
	resp, err := http.Post("http://"+(<-address).String()+"/api/v1/call", "application/json", strings.NewReader(call))
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, strings.Contains(string(body), "Hello, Ann"), err)
	stop()
	fmt.Println(<-ended)
	// Output:
	// 200 true <nil>
	// <nil>
}

// An MCP client starts such a program and talks to its stdin and stdout.
func ExampleStdio() {
	ctx := context.Background()
	r := greeter(ctx)
	defer r.Close()
	in := io.NopCloser(strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"example","version":"1"}}}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"))
	out := &lines{}
	err := serve.Stdio(ctx, r, in, out, serve.Options{})
	fmt.Println(strings.Contains(out.String(), `"greet__hello"`), err)
	// Output: true <nil>
}

type lines struct{ strings.Builder }

func (*lines) Close() error { return nil }
