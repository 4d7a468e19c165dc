package browser

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// maxMessage bounds one message of Chromium, such as the tree of a page. A larger message ends
// the browser.
const maxMessage = 128 << 20

var (
	errEnded           = errors.New("the browser has ended")
	errMessageTooLarge = fmt.Errorf("a page needs a message of more than %d bytes", maxMessage)
	jsonOptions        = jsonv2.JoinOptions(jsonv2.DefaultOptionsV2(), jsonv2.AllowInvalidUTF8(true))
)

// conn is a connection to Chromium over a pair of pipes. It speaks the DevTools protocol:
// messages are JSON and end with a zero byte. The sessions of all targets share it.
type conn struct {
	// event is called with each event, in order. It must not wait for the browser.
	event func(session, method string, params jsonv2.Value)

	write   sync.Mutex
	w       io.Writer
	r       io.Closer // ends the connection
	mu      sync.Mutex
	last    int64
	waiting map[int64]chan message
	done    chan struct{} // closed when the connection has ended
	err     error         // why; valid once done is closed
}

// message is a request, a response or an event.
type message struct {
	ID        int64         `json:"id,omitzero"`
	SessionID string        `json:"sessionId,omitzero"`
	Method    string        `json:"method,omitzero"`
	Params    jsonv2.Value  `json:"params,omitzero"`
	Result    jsonv2.Value  `json:"result,omitzero"`
	Error     *messageError `json:"error,omitzero"`
}

// messageError is an error that Chromium returns.
type messageError struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
}

func (e *messageError) Error() string { return e.Message }

func newConn(r io.ReadCloser, w io.Writer, event func(session, method string, params jsonv2.Value)) *conn {
	c := &conn{event: event, w: w, r: r, waiting: map[int64]chan message{}, done: make(chan struct{})}
	go c.read(bufio.NewReaderSize(r, 64<<10))
	return c
}

func (c *conn) read(r *bufio.Reader) {
	var text bytes.Buffer
	var err error
	for err == nil {
		var part []byte
		part, err = r.ReadSlice(0)
		text.Write(part)
		if errors.Is(err, bufio.ErrBufferFull) && text.Len() <= maxMessage {
			err = nil
			continue
		}
		if err == nil {
			c.deliver(bytes.TrimSuffix(text.Bytes(), []byte{0}))
			text = bytes.Buffer{}
		}
	}
	c.err = errEnded
	if errors.Is(err, bufio.ErrBufferFull) {
		c.err = errMessageTooLarge
	}
	close(c.done)
}

func (c *conn) deliver(text []byte) {
	var m message
	if err := jsonv2.Unmarshal(text, &m, jsonOptions); err != nil {
		return // the protocol has no such message
	}
	if m.Method != "" {
		c.event(m.SessionID, m.Method, m.Params)
		return
	}
	c.mu.Lock()
	answer := c.waiting[m.ID]
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- m
	}
}

// call sends a command and waits for its result.
func (c *conn) call(ctx context.Context, session, method string, params, result any) error {
	m := message{SessionID: session, Method: method}
	var err error
	if m.Params, err = jsonv2.Marshal(params, jsonOptions); err != nil {
		return err
	}
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	m.ID = c.last
	c.waiting[m.ID] = answer
	c.mu.Unlock()
	text, err := jsonv2.Marshal(m, jsonOptions)
	if err == nil {
		err = c.send(ctx, append(text, 0))
	}
	if err == nil {
		select {
		case got := <-answer:
			if got.Error != nil {
				return got.Error
			}
			return jsonv2.Unmarshal(got.Result, result, jsonOptions)
		case <-c.done:
			err = c.err
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	c.mu.Lock()
	delete(c.waiting, m.ID)
	c.mu.Unlock()
	return err
}

// unreadTime is how long a call waits after its end for a browser that does not read commands.
const unreadTime = 2 * time.Second

// send writes a command. If the browser reads neither it nor the commands before it, send ends
// the connection, and with it the browser, unreadTime after ctx has ended.
func (c *conn) send(ctx context.Context, text []byte) error {
	sent := make(chan struct{})
	defer close(sent)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-sent:
		case <-time.After(unreadTime):
			c.r.Close()
		}
	})()
	c.write.Lock()
	defer c.write.Unlock()
	if _, err := c.w.Write(text); err != nil {
		return errEnded
	}
	return nil
}

// session is the connection to one target; the one without id is that to the browser.
type session struct {
	conn *conn
	id   string
}

// Call implements [cdp.Session].
func (s session) Call(ctx context.Context, method string, params, result any) error {
	return s.conn.call(ctx, s.id, method, params, result)
}

// post sends a command and ignores the response. It returns no error, because sending fails
// only if the browser has ended.
func (s session) post(method string, params any) {
	c := s.conn
	c.mu.Lock()
	c.last++
	m := message{ID: c.last, SessionID: s.id, Method: method}
	c.mu.Unlock()
	var err error
	if m.Params, err = jsonv2.Marshal(params, jsonOptions); err != nil {
		return
	}
	if text, err := jsonv2.Marshal(m, jsonOptions); err == nil {
		_ = c.send(context.Background(), append(text, 0))
	}
}

// Subscribe implements [cdp.Session]. Events come through [conn.event] instead.
func (s session) Subscribe(string) (<-chan jsonv2.Value, func()) {
	none := make(chan jsonv2.Value)
	close(none)
	return none, func() {}
}
