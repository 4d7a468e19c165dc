package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/toolroom/toolroom/mcp"
)

// A server that refuses one resource refuses the whole subscription.
func TestARefusedSubscriptionLeavesTheOneBefore(t *testing.T) {
	onEach(t, func(t *testing.T, transport string, legacy bool) {
		if legacy {
			return // each resource is a request of its own
		}
		d := newTestServer(t, func(o *mcp.ServerOptions) {
			subscribe := o.Subscribe
			o.Subscribe = func(ctx context.Context, r *mcp.ServerRequest, uri string) (func(), error) {
				if uri == "doc://gone" {
					return nil, &mcp.Error{Code: mcp.CodeInvalidParams, Message: "there is no " + uri}
				}
				return subscribe(ctx, r, uri)
			}
		})
		heard := make(chan struct{}, 100)
		c := d.connect(t, transport, legacy, mcp.ClientHandler{Notified: func(_ any, method string, _ json.RawMessage) {
			if method == "notifications/resources/updated" {
				heard <- struct{}{}
			}
		}})
		defer c.Close()
		if err := c.Watch(t.Context(), []string{"doc://a"}); err != nil {
			t.Fatal(err)
		}
		refused := (*mcp.Error)(nil)
		if err := c.Watch(t.Context(), []string{"doc://a", "doc://gone"}); !errors.As(err, &refused) || refused.Message != "there is no doc://gone" {
			t.Errorf("watching what is gone: %v", err)
		}
		for deadline := time.Now().Add(10 * time.Second); ; {
			d.ResourceUpdated("doc://a", nil)
			select {
			case <-heard:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if time.Now().After(deadline) {
				t.Fatal("the resource from before is watched no more")
			}
		}
	})
}
