package mcp

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// roundTripper serves the requests of a client without a network.
type roundTripper func(*http.Request) (status int, contentType, body string)

func (serve roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	status, contentType, body := serve(r)
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {contentType}, "Mcp-Session-Id": {"one"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// A server may believe for a while that a broken stream is still connected, and refuses another
// one with status 409.
func TestAStreamIsOpenedAgainThoughTheServerStillHasTheBrokenOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opened := 0
		serve := func(r *http.Request) (int, string, string) {
			switch r.Method {
			case http.MethodGet:
				switch opened++; opened {
				case 1:
					return http.StatusOK, "text/event-stream", ": ok\n\n"
				case 2:
					return http.StatusConflict, "text/plain", "the session has such a stream already"
				case 3:
					return http.StatusOK, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n"
				}
				return http.StatusMethodNotAllowed, "", ""
			case http.MethodDelete:
				return http.StatusNoContent, "", ""
			}
			var m struct{ Method string }
			if json.NewDecoder(r.Body).Decode(&m) != nil || m.Method != "initialize" {
				return http.StatusAccepted, "", ""
			}
			return http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}}`
		}
		heard := make(chan string, 1)
		c, err := Connect(t.Context(), HTTP("http://server/mcp", &http.Client{Transport: roundTripper(serve)}), ClientOptions{
			Name: "test", Legacy: true,
			Handler: ClientHandler{Notified: func(_ any, method string, _ json.RawMessage) { heard <- method }},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		select {
		case got := <-heard:
			if got != "notifications/tools/list_changed" {
				t.Errorf("the client heard %s", got)
			}
		case <-time.After(time.Hour):
			t.Error("the stream was not opened again")
		}
	})
}
