package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
)

// sseTransport is HTTP+SSE of 2024-11-05: one stream carries all messages of the
// server, and names the URL to which the client posts its messages.
type sseTransport struct {
	*httpTransport
	once      sync.Once
	postKnown chan struct{} // closed when postURL is known
	postURL   string
}

func newSSE(t *httpTransport) *sseTransport {
	return &sseTransport{httpTransport: &httpTransport{url: t.url, client: t.client}, postKnown: make(chan struct{})}
}

func (t *sseTransport) ready() {}

func (t *sseTransport) send(ctx context.Context, m *outgoing) error {
	t.once.Do(func() { t.c.spawn(t.readLoop) })
	select {
	case <-t.postKnown:
	case <-t.c.Done():
		return t.c.endedError()
	case <-ctx.Done():
		return ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.postURL, bytes.NewReader(m.body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	t.setHeaders(req.Header, m)
	resp, err := t.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if resp.StatusCode >= 300 {
		return &StatusError{resp.StatusCode, firstLine(resp.Header.Get("Content-Type"), text)}
	}
	return nil
}

// readLoop reads the stream. The session ends with the stream.
func (t *sseTransport) readLoop() {
	resp, err := t.openStream(t.c.ctx, "")
	if err != nil {
		t.c.end(err)
		return
	}
	defer resp.Body.Close()
	events := newEventStream(resp.Body)
	named := false
	for {
		e, err := events.next()
		switch {
		case err != nil:
			t.c.end(fmt.Errorf("the stream ended unexpectedly: %w", unexpectedEOF(err)))
			return
		case e.kind == "endpoint" && !named:
			post, err := t.resolve(string(e.data))
			if err != nil {
				t.c.end(err)
				return
			}
			named, t.postURL = true, post
			close(t.postKnown)
		case len(e.data) > 0:
			if err := t.c.receive(e.data, 0); err != nil {
				t.c.end(err)
				return
			}
		}
	}
}

// resolve returns the URL for messages. It must be on the same server, because the
// client sends its credentials there.
func (t *sseTransport) resolve(text string) (string, error) {
	base, err := url.Parse(t.url)
	if err != nil {
		return "", err
	}
	u, err := base.Parse(text)
	if err != nil {
		return "", err
	}
	if u.Scheme != base.Scheme || u.Host != base.Host {
		return "", errors.New("the server names another host for messages: " + u.Host)
	}
	return u.String(), nil
}

func (t *sseTransport) close() {}
