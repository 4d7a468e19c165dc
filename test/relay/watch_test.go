package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newChangingServer is a server of the go-sdk whose resource and prompts change.
func newChangingServer(t *testing.T, modern bool) (*mcp.Server, *upstream) {
	t.Helper()
	agree := func(context.Context, *mcp.SubscribeRequest) error { return nil }
	s := mcp.NewServer(&mcp.Implementation{Name: "changing", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   agree,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.AddResource(&mcp.Resource{URI: "x:1", Name: "one"}, nil)
	s.AddPrompt(&mcp.Prompt{Name: "first"}, nil)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: modern}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return s, &upstream{Server: web}
}

func TestChangesOfAServerReachTheClientsThatWatch(t *testing.T) {
	t.Parallel()
	for _, modernServer := range []bool{true, false} {
		s, up := newChangingServer(t, modernServer)
		url := serve(t, up)
		for _, version := range []string{modern, legacy} {
			t.Run(fmt.Sprintf("server modern=%t, client %s", modernServer, version), func(t *testing.T) {
				updated, listed := make(chan string, 64), make(chan struct{}, 64)
				client := mcp.NewClient(&mcp.Implementation{Name: "watcher", Version: "1"}, &mcp.ClientOptions{
					ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
						updated <- req.Params.URI
					},
					PromptListChangedHandler: func(context.Context, *mcp.PromptListChangedRequest) { listed <- struct{}{} },
				})
				session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				if err := session.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "x:1"}); err != nil {
					t.Fatal(err)
				}
				// A subscription takes some time to reach the server. Earlier changes
				// are not sent.
				ticker := time.NewTicker(100 * time.Millisecond)
				defer ticker.Stop()
				prompt := 0
				gotUpdate, gotList := false, false
				for !gotUpdate || !gotList {
					select {
					case uri := <-updated:
						if uri != "x:1" {
							t.Errorf("%s has changed", uri)
						}
						gotUpdate = true
					case <-listed:
						gotList = true
					case <-ticker.C:
						prompt++
						s.AddPrompt(&mcp.Prompt{Name: fmt.Sprintf("%s-%d", version, prompt)}, nil)
						if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "x:1"}); err != nil {
							t.Fatal(err)
						}
					}
				}
			})
		}
	}
}
