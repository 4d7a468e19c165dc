package mcp

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// exchange is the response to a POST: one piece of JSON, or a stream once something
// else is sent or the answer takes long.
type exchange struct {
	w       http.ResponseWriter
	session *ServerSession // nil from 2026-07-28 on
	modern  bool
	streams bool // the answer is an event; its error still has an HTTP status

	mu       sync.Mutex
	out      *stream // nil until the response is a stream
	receiver *receiver
	open     int  // requests without an answer
	ended    bool // the response has been written, or its handler has returned
	timer    *time.Timer
}

// begin makes the response a stream after quietTime.
func (x *exchange) begin() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out == nil && !x.ended {
		x.timer = time.AfterFunc(quietTime, x.stream)
	}
}

// end keeps anything from being written after the handler has returned.
func (x *exchange) end() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ended = true
	if x.timer != nil {
		x.timer.Stop()
	}
	if x.receiver != nil {
		x.out.disconnect(x.receiver)
	}
}

// stream makes the response a stream.
func (x *exchange) stream() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.streamLocked()
}

// streamLocked makes the response a stream. It reports whether it is one.
func (x *exchange) streamLocked() bool {
	if x.out != nil {
		return true
	}
	if x.ended {
		return false // the client knows no stream to resume
	}
	if x.session == nil {
		x.out = newStream(nil)
	} else {
		x.out = x.session.stored.open()
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	x.receiver, _ = x.out.connect(x.w, -1) // nothing was sent yet
	if x.session != nil && x.session.Version() == legacyVersion {
		x.out.prime()
	}
	return true
}

// gone is closed when the response has ended.
func (x *exchange) gone() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.receiver == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return x.receiver.gone
}

func (x *exchange) send(text []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == 0 || !x.streamLocked() {
		return errGone
	}
	return x.out.send(text, false)
}

func (x *exchange) release(retry int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.session != nil && x.open > 0 && x.streamLocked() {
		x.out.release(retry)
	}
}

// answer writes an answer: text is the result, or the whole message of an error.
func (x *exchange) answer(id, text []byte, failed *Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.open--
	message := text
	if failed == nil {
		message = answerText(id, text)
	}
	if x.out != nil || x.streams && failed == nil && x.streamLocked() {
		_ = x.out.send(message, x.open == 0) // a client that has gone needs no answer
		return
	}
	if x.ended {
		return
	}
	x.ended = true
	if x.timer != nil {
		x.timer.Stop()
	}
	h := x.w.Header()
	h["Content-Type"] = jsonType
	h["Cache-Control"] = noCache
	h["Content-Length"] = []string{strconv.Itoa(len(message))}
	if status := x.status(failed); status != http.StatusOK {
		x.w.WriteHeader(status)
	}
	_, _ = x.w.Write(message) // a client that does not read it has gone
}

// status returns that of an answer: errors of the protocol have one of their own since
// 2026-07-28.
func (x *exchange) status(failed *Error) int {
	if failed == nil || !x.modern {
		return http.StatusOK
	}
	switch failed.Code {
	case CodeMethodNotFound:
		return http.StatusNotFound
	case CodeInvalidParams, codeUnsupportedVersion, CodeMissingCapability, CodeHeaderMismatch:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// answerText returns the message of a result.
func answerText(id, result []byte) []byte {
	text := make([]byte, 0, len(id)+len(result)+40)
	text = append(append(text, `{"jsonrpc":"2.0","id":`...), id...)
	text = append(append(text, `,"result":`...), result...)
	return append(text, '}')
}
