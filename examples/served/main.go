// Command served puts a room on the network: over HTTP at /api/v1, and over MCP at /mcp for
// coding agents. It calls itself once and ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/room"
	"github.com/toolroom/toolroom/serve"
)

type person struct {
	Name string `json:"name"`
}

func hello(_ context.Context, p person) (string, error) { return "Hello, " + p.Name, nil }

func main() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	r, err := room.Open(ctx, room.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	if err := room.Register(r, "greet:hello", "Greet somebody.", hello); err != nil {
		log.Fatal(err)
	}

	// HTTP serves until its context ends. Port 0 takes any free port; a server of yours has
	// a fixed one, and tells its users http://HOST:PORT/mcp.
	started, ended := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		ended <- serve.HTTP(ctx, r, serve.Options{Listen: "127.0.0.1:0", Started: func(a net.Addr) { started <- a }})
	}()
	var address net.Addr
	select {
	case address = <-started:
	case err := <-ended:
		log.Fatal(err)
	}

	// Any HTTP client can call a tool, and gets the same result as a Go program.
	resp, err := http.Post("http://"+address.String()+"/api/v1/call", "application/json",
		strings.NewReader(`{"tool": "greet:hello", "arguments": {"name": "Ann"}}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	var result toolroom.Result
	if err := json.NewDecoder(resp.Body).Decode(&result); err != nil {
		log.Fatal(err)
	}
	fmt.Println(resp.StatusCode, result.Status, result.Text())

	// The end of the context lets calls finish, and closes the server.
	stop()
	fmt.Println("stopped", <-ended)
}
