package oauth_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// countedBody counts the bodies that are open.
type countedBody struct {
	io.Reader
	open   *atomic.Int64
	closed atomic.Bool
}

func (b *countedBody) Close() error {
	if !b.closed.Swap(true) {
		b.open.Add(-1)
	}
	return nil
}

func TestTheBodiesOfRequestsAreClosed(t *testing.T) {
	t.Parallel()
	w, s := newWorld(t), &store{}
	send := func() error {
		open := &atomic.Int64{}
		body := func() io.ReadCloser {
			open.Add(1)
			return &countedBody{Reader: strings.NewReader("body"), open: open}
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/mcp", body())
		if err != nil {
			t.Fatal(err)
		}
		req.GetBody = func() (io.ReadCloser, error) { return body(), nil }
		resp, err := w.client(s).Transport(&bodies{w: w}).RoundTrip(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if n := open.Load(); n != 0 {
			t.Errorf("%d bodies are open, after %v", n, err)
		}
		return err
	}
	if err := send(); err == nil {
		t.Error("without a login, no error")
	}
	if err := w.login(t, w.client(s)); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != nil {
		t.Error(err)
	}
}
