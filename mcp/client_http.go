package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSessionGone means that a server has forgotten the session, or speaks another
// revision than the negotiated one, for example after a restart. The request was not
// carried out and can be repeated on a new session.
var ErrSessionGone = errors.New("the server has ended the session")

// ErrUnanswered means that the server closed the stream of a request properly, but
// without a response and without an event to resume from. The outcome of the request
// is unknown.
var ErrUnanswered = errors.New("the server closed the stream before the response, and sent no event id to resume from")

// StatusError is an HTTP error status without a response in the protocol.
type StatusError struct {
	Code int
	// Text is the beginning of the body if it is text.
	Text string
}

// Error returns the status and the text.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answered with status %d %s", e.Code, http.StatusText(e.Code))
	if e.Text != "" {
		text += ": " + e.Text
	}
	return text
}

const (
	// maxRefusal limits the bytes read of an error response.
	maxRefusal = 64 << 10
	// maxResumes limits how often in a row a broken stream is resumed without
	// receiving an event.
	maxResumes = 5
	// drainTime limits the wait for the end of a stream after its response, which
	// allows its connection to be reused.
	drainTime = 500 * time.Millisecond
	// openTime limits the wait for the stream of an older server.
	openTime = time.Second
)

// HTTP returns a transport to a streamable HTTP endpoint. Client adds all headers
// that the server requires besides those of the protocol.
func HTTP(url string, client *http.Client) Transport {
	return &httpTransport{url: url, client: client}
}

type httpTransport struct {
	url        string
	client     *http.Client
	c          *Client
	negotiated atomic.Bool // the protocol has been negotiated

	mu      sync.Mutex
	session string // the session's id, in older revisions
}

func (t *httpTransport) attach(c *Client) { t.c = c }

// ready opens the stream for messages of an older server that belong to no request. Messages
// that the server sends before are lost.
func (t *httpTransport) ready() {
	t.negotiated.Store(true)
	if t.c.Server().Modern() {
		return
	}
	opened := make(chan struct{})
	t.c.spawn(func() { t.listenForMessages(sync.OnceFunc(func() { close(opened) })) })
	select {
	case <-opened:
	case <-time.After(openTime): // the server may send nothing before its first message
	case <-t.c.Done():
	}
}

func (t *httpTransport) send(ctx context.Context, m *outgoing) error {
	// The exchange outlives the caller's context until the rest of a stream after its
	// response has been read.
	exchange, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer context.AfterFunc(ctx, cancel)()
	stopOpen := context.AfterFunc(t.c.ctx, func() {
		if !t.sessionGone() { // otherwise the server still answers or refuses each request
			cancel()
		}
	})
	rest, err := t.exchange(exchange, m)
	stopOpen()
	finish := func() {
		defer cancel()
		defer context.AfterFunc(t.c.ctx, cancel)()
		drain(rest)
	}
	if rest == nil || !t.c.spawn(finish) {
		cancel()
	}
	if err != nil && t.c.ctx.Err() != nil && !t.sessionGone() {
		return t.c.endedError()
	}
	return err
}

// sessionGone reports whether the session has ended because the server has forgotten it.
func (t *httpTransport) sessionGone() bool { return errors.Is(t.c.Err(), ErrSessionGone) }

// Header values of each request; read only.
var (
	contentTypeJSON = []string{"application/json"}
	acceptBoth      = []string{"application/json, text/event-stream"}
)

// exchange sends a message and handles the response. Rest is the rest of the stream
// after the response, or nil.
func (t *httpTransport) exchange(ctx context.Context, m *outgoing) (rest io.ReadCloser, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(m.body))
	if err != nil {
		return nil, err
	}
	req.Header = make(http.Header, 8)
	req.Header["Content-Type"] = contentTypeJSON
	req.Header["Accept"] = acceptBoth
	t.setHeaders(req.Header, m)
	resp, err := t.client.Do(req)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err != nil {
		return nil, err
	}
	kind := mediaType(resp.Header)
	if resp.StatusCode < 300 {
		t.keepSession(resp)
		if m.id != 0 && kind == "text/event-stream" {
			return t.readStream(ctx, m, resp.Body)
		}
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode >= 300:
		return nil, t.errorOf(m, resp)
	case m.id == 0:
		_, _ = io.CopyN(io.Discard, resp.Body, maxRefusal)
		return nil, nil
	case kind == "application/json":
		return nil, t.readJSON(m, resp.Body)
	default:
		return nil, fmt.Errorf("the server answered with content type %q, which MCP does not use", resp.Header.Get("Content-Type"))
	}
}

// mediaType returns the media type of a body without parameters.
func mediaType(h http.Header) string {
	value := h.Get("Content-Type")
	if value == "application/json" {
		return value // the usual form, which needs no parsing
	}
	kind, _, _ := mime.ParseMediaType(value)
	return kind
}

func (t *httpTransport) setHeaders(h http.Header, m *outgoing) {
	if m.version != "" {
		h.Set(versionKey, m.version)
	}
	if m.modern() {
		if m.method != "" {
			h.Set("Mcp-Method", m.method)
		}
		if m.name != "" {
			h.Set("Mcp-Name", encodeHeader(m.name))
		}
		for name, value := range m.header {
			h.Set(name, encodeHeader(value))
		}
		return
	}
	if session := t.sessionID(); session != "" {
		h.Set("Mcp-Session-Id", session)
	}
}

func (t *httpTransport) sessionID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.session
}

// keepSession stores the id of the session that an older server has begun.
func (t *httpTransport) keepSession(resp *http.Response) {
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.session = cmp.Or(t.session, id)
	}
}

// errorOf returns the error of an error response: one of the protocol, or the HTTP status.
func (t *httpTransport) errorOf(m *outgoing, resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	var answer message
	isRPC := json.Unmarshal(body, &answer) == nil && answer.Error != nil
	id, ours := answer.responseID()
	ours = isRPC && ours && id == m.id
	if t.isSessionGone(m, resp.StatusCode, &answer, ours) {
		t.c.end(ErrSessionGone)
		return ErrSessionGone
	}
	if isRPC {
		return answer.Error
	}
	return &StatusError{resp.StatusCode, firstLine(resp.Header.Get("Content-Type"), body)}
}

// isSessionGone reports whether an error response means that the server has forgotten the
// session or the negotiated revision: it is not for this request, or has an error code that
// older revisions lack. In 2026-07-28, status 404 also means an unknown method.
func (t *httpTransport) isSessionGone(m *outgoing, status int, answer *message, ours bool) bool {
	if m.version == "" || m.modern() && !t.negotiated.Load() || !m.modern() && t.sessionID() == "" {
		return false
	}
	switch status {
	case http.StatusNotFound:
		return !m.modern() || !ours
	case http.StatusBadRequest:
		if ours {
			return !m.modern() && (answer.Error.Code == codeUnsupportedVersion || answer.Error.Code == CodeHeaderMismatch)
		}
		return answer.Error != nil
	}
	return false
}

// firstLine returns the beginning of a text, for an error message.
func firstLine(contentType string, body []byte) string {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind != "text/plain" && kind != "application/json" {
		return ""
	}
	line, _, _ := bytes.Cut(bytes.TrimSpace(body), []byte("\n"))
	const most = 200
	return string(bytes.ToValidUTF8(line[:min(len(line), most)], nil))
}

// readJSON reads a response that is JSON and not a stream.
func (t *httpTransport) readJSON(m *outgoing, body io.Reader) error {
	raw, err := io.ReadAll(io.LimitReader(body, maxMessage+1))
	if err != nil {
		return fmt.Errorf("the response ended unexpectedly: %w", err)
	}
	if len(raw) > maxMessage {
		return fmt.Errorf("the response has more than %d bytes", maxMessage)
	}
	if err := t.c.receive(raw, m.id); err != nil {
		return err
	}
	if !t.c.isDelivered(m.id) {
		return errors.New("not an MCP server: the response has a different request id")
	}
	return nil
}

// readStream reads a stream until the request has its response, and returns the rest of the
// stream. It resumes a broken stream if the server is an older one and has sent event ids.
func (t *httpTransport) readStream(ctx context.Context, m *outgoing, body io.ReadCloser) (rest io.ReadCloser, err error) {
	last, pause := "", time.Duration(0)
	for resumes := 0; ; resumes++ {
		events := newEventStream(body)
		for {
			e, err := events.next()
			if err != nil {
				body.Close()
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				switch {
				case last != "" && !m.modern() && resumes < maxResumes:
				case last == "" && errors.Is(err, io.EOF):
					return nil, ErrUnanswered
				default:
					return nil, fmt.Errorf("the stream ended unexpectedly before the response: %w", unexpectedEOF(err))
				}
				break
			}
			if e.id != "" {
				last = e.id
			}
			if e.retry > 0 {
				pause = e.retry
			}
			if len(e.data) == 0 {
				continue
			}
			resumes = 0
			if err := t.c.receive(e.data, m.id); err != nil {
				body.Close()
				return nil, err
			}
			if t.c.isDelivered(m.id) {
				return body, nil
			}
		}
		if body, err = t.resume(ctx, last, pause); err != nil {
			return nil, err
		}
	}
}

func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// drain reads a stream to its end within drainTime, so that its connection can be
// reused.
func drain(body io.ReadCloser) {
	timer := time.AfterFunc(drainTime, func() { body.Close() })
	defer timer.Stop()
	_, _ = io.Copy(io.Discard, body)
	body.Close()
}

// resume resumes a stream after the last event id.
func (t *httpTransport) resume(ctx context.Context, last string, pause time.Duration) (io.ReadCloser, error) {
	pause = cmp.Or(pause, firstReopen)
	select {
	case <-time.After(min(pause, lastReopen)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	resp, err := t.openStream(ctx, last)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// openStream opens a stream of an older server, after the event with id last if it is set.
func (t *httpTransport) openStream(ctx context.Context, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	t.setHeaders(req.Header, &outgoing{version: t.c.Server().Version})
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); resp.StatusCode != http.StatusOK || kind != "text/event-stream" {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
		return nil, &StatusError{resp.StatusCode, firstLine(resp.Header.Get("Content-Type"), text)}
	}
	return resp, nil
}

// listenForMessages keeps open the stream for messages of an older server that belong to no
// request, if it has one. It calls opened when the server has answered the first time.
func (t *httpTransport) listenForMessages(opened func()) {
	var wait backoff
	last := ""
	for {
		resp, err := t.openStream(t.c.ctx, last)
		opened()
		status, refused := errors.AsType[*StatusError](err)
		// Status 409 means that the server has not noticed yet that the stream before is broken.
		if refused && status.Code < 500 && status.Code != http.StatusConflict || t.c.ctx.Err() != nil {
			return // the server has no such stream
		}
		pause := wait.next()
		if err == nil {
			wait = backoff{}
			events := newEventStream(resp.Body)
			for {
				e, err := events.next()
				if err != nil {
					break
				}
				if e.id != "" {
					last = e.id
				}
				if e.retry > 0 {
					pause = min(e.retry, lastReopen)
				}
				if len(e.data) > 0 && t.c.receive(e.data, 0) != nil {
					break
				}
			}
			resp.Body.Close()
		}
		select {
		case <-time.After(pause):
		case <-t.c.ctx.Done():
			return
		}
	}
}

// close ends the session of an older server.
func (t *httpTransport) close() {
	if session := t.sessionID(); session != "" && !t.sessionGone() {
		ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
		defer cancel()
		if req, err := http.NewRequestWithContext(ctx, http.MethodDelete, t.url, nil); err == nil {
			t.setHeaders(req.Header, &outgoing{version: t.c.Server().Version})
			if resp, err := t.client.Do(req); err == nil {
				resp.Body.Close()
			}
		}
	}
}
