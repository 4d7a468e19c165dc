package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/toolroom/toolroom/mcp"
)

// greeter is a server with one tool.
func greeter() *mcp.Server {
	s, err := mcp.NewServer(mcp.ServerOptions{
		Name: "greeter", Version: "1",
		Capabilities: json.RawMessage(`{"tools":{}}`),
		Handle: func(_ context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
			switch {
			case r.Method == "tools/list":
				return json.RawMessage(`{"tools":[{"name":"greet","inputSchema":{"type":"object"}}],"ttlMs":60000,"cacheScope":"public"}`), nil
			case r.Method == "tools/call" && r.Name == "greet":
				return json.RawMessage(`{"content":[{"type":"text","text":"hello"}],"unknown":12345678901234567890}`), nil
			case r.Method == "tools/call":
				return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "there is no tool " + r.Name}
			}
			return nil, mcp.MethodNotFound(r.Method)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	return s
}

// A client of any server, whichever revision that speaks.
func ExampleConnect() {
	server := httptest.NewServer(greeter().HTTP())
	defer server.Close()

	client, err := mcp.Connect(context.Background(), mcp.HTTP(server.URL, http.DefaultClient), mcp.ClientOptions{Name: "example", Version: "1"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	fmt.Println(client.Server().Name, client.Server().Version)

	result, err := client.Call(context.Background(), &mcp.Request{
		Method: "tools/call", Name: "greet",
		Params: []mcp.Field{mcp.String("name", "greet"), {Name: "arguments", Value: json.RawMessage(`{}`)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	var r struct{ Unknown json.Number }
	if err := json.Unmarshal(result, &r); err != nil {
		log.Fatal(err)
	}
	fmt.Println(r.Unknown)
	// Output:
	// greeter 2026-07-28
	// 12345678901234567890
}

// A server for clients of all revisions at one URL.
func ExampleNewServer() {
	server := greeter()
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(server.HTTP()))
	mux.Handle("/sse", http.NewCrossOriginProtection().Handler(server.SSE()))
	web := httptest.NewServer(mux)
	defer web.Close()

	for _, legacy := range []bool{false, true} {
		client, err := mcp.Connect(context.Background(), mcp.HTTP(web.URL+"/mcp", http.DefaultClient), mcp.ClientOptions{Name: "example", Legacy: legacy})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(client.Server().Version)
		client.Close()
	}
	// Output:
	// 2026-07-28
	// 2025-11-25
}

// A relay passes requests, results, errors, notifications and questions on as they came.
func Example_relay() {
	upstream := httptest.NewServer(greeter().HTTP())
	defer upstream.Close()
	behind, err := mcp.Connect(context.Background(), mcp.HTTP(upstream.URL, http.DefaultClient), mcp.ClientOptions{
		Name: "relay",
		Handler: mcp.ClientHandler{
			Notified: func(owner any, method string, params json.RawMessage) {
				if r, ok := owner.(*mcp.ServerRequest); ok {
					_ = r.Notify(method, params)
				}
			},
			Asked: func(ctx context.Context, owner any, q mcp.Question) (json.RawMessage, error) {
				if r, ok := owner.(*mcp.ServerRequest); ok {
					return r.Ask(ctx, q)
				}
				return nil, mcp.MethodNotFound(q.Method)
			},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer behind.Close()
	relay, err := mcp.NewServer(mcp.ServerOptions{
		Name: "relay", Capabilities: json.RawMessage(`{"tools":{}}`),
		Handle: func(ctx context.Context, r *mcp.ServerRequest) (json.RawMessage, error) {
			params, err := mcp.Fields(r.Params, "_meta")
			if err != nil {
				return nil, err
			}
			return behind.Call(ctx, &mcp.Request{Method: r.Method, Name: r.Name, Params: params, Owner: r})
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	front := httptest.NewServer(relay.HTTP())
	defer front.Close()

	client, err := mcp.Connect(context.Background(), mcp.HTTP(front.URL, http.DefaultClient), mcp.ClientOptions{Name: "example", Legacy: true})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	result, err := client.Call(context.Background(), &mcp.Request{Method: "tools/call", Name: "greet", Params: []mcp.Field{mcp.String("name", "greet")}})
	if err != nil {
		log.Fatal(err)
	}
	o, err := mcp.ReadObject(result)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(o.Get("content")), string(o.Get("unknown")))
	// Output:
	// [{"type":"text","text":"hello"}] 12345678901234567890
}
