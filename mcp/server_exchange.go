package mcp

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// postResponse is the response to a POST: JSON, or a stream if something is sent before the
// answer or the answer takes longer than streamDelay.
type postResponse struct {
	w           http.ResponseWriter
	session     *ServerSession // nil from 2026-07-28 on
	modern      bool
	wantsStream bool // a result is sent as a stream; an error still has an HTTP status

	mu       sync.Mutex
	out      *stream // nil until the response is a stream
	receiver *receiver
	pending  int  // requests without a response
	ended    bool // the response has been written, or its handler has returned
	timer    *time.Timer
}

// startTimer makes the response a stream after streamDelay.
func (x *postResponse) startTimer() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.out == nil && !x.ended {
		x.timer = time.AfterFunc(streamDelay, x.makeStream)
	}
}

// end must be called before the handler returns; nothing is written afterwards.
func (x *postResponse) end() {
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

// makeStream turns the response into a stream.
func (x *postResponse) makeStream() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ensureStream()
}

// ensureStream turns the response into a stream unless it is one, and reports whether it is one
// then. The caller holds the lock.
func (x *postResponse) ensureStream() bool {
	if x.out != nil {
		return true
	}
	if x.ended {
		return false // too late: the client knows of no stream that it could resume
	}
	if x.session == nil {
		x.out = newStream(nil)
	} else {
		x.out = x.session.streams.open()
	}
	if x.timer != nil {
		x.timer.Stop()
	}
	x.receiver, _ = x.out.connect(x.w, -1) // cannot fail, because nothing was sent yet
	if x.session != nil && x.session.Version() == legacyVersion {
		x.out.sendPrimingEvent()
	}
	return true
}

// done returns a channel that is closed when the response has ended.
func (x *postResponse) done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.receiver == nil {
		closed := make(chan struct{})
		close(closed)
		return closed
	}
	return x.receiver.gone
}

func (x *postResponse) send(text []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.pending == 0 || !x.ensureStream() {
		return errNotConnected
	}
	return x.out.send(text, false)
}

func (x *postResponse) release(retry int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.session != nil && x.pending > 0 && x.ensureStream() {
		x.out.release(retry)
	}
}

// respond implements responder.
func (x *postResponse) respond(id, text []byte, failed *Error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pending--
	message := text
	if failed == nil {
		message = answerText(id, text)
	}
	if x.out != nil || x.wantsStream && failed == nil && x.ensureStream() {
		_ = x.out.send(message, x.pending == 0) // an error means that the client has gone
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
	_, _ = x.w.Write(message) // an error means that the client has gone
}

// status returns the HTTP status of a response. Since 2026-07-28, errors of the protocol have
// other statuses than 200.
func (x *postResponse) status(failed *Error) int {
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

// answerText returns the JSON of a response with a result.
func answerText(id, result []byte) []byte {
	text := make([]byte, 0, len(id)+len(result)+40)
	text = append(append(text, `{"jsonrpc":"2.0","id":`...), id...)
	text = append(append(text, `,"result":`...), result...)
	return append(text, '}')
}
