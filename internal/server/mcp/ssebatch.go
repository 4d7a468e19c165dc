package mcpserver

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// eventStart and eventEnd are around each message on a stream of HTTP+SSE.
const (
	eventStart = "event: message\ndata: "
	eventEnd   = "\n\n"
)

// batchWriter writes the events of a stream of HTTP+SSE. The answers to a batch go
// out in one event, when the last has come.
type batchWriter struct {
	http.ResponseWriter
	standIns standIns

	mu      sync.Mutex
	batches batches
	ended   bool // nobody reads the stream any more
}

// end keeps what comes later from being written.
func (w *batchWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// refused answers a request of a batch that the SDK did not take.
func (w *batchWriter) refused(message []byte) {
	id, ok := requestID(message)
	w.mu.Lock()
	ok = ok && len(w.batches[id]) > 0
	w.mu.Unlock()
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if !ok || json.Unmarshal(message, &m) != nil {
		return
	}
	// A client that does not read has gone.
	_, _ = w.Write(eventOf(bytes.Replace(invalidRequest, []byte("null"), m.ID, 1)))
	_ = http.NewResponseController(w).Flush()
}

// Write writes an event.
func (w *batchWriter) Write(event []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return 0, io.ErrClosedPipe
	}
	out := event
	if message, ok := bytes.CutPrefix(event, []byte(eventStart)); ok {
		out = w.standIns.plain(bytes.TrimRight(message, "\n"))
		if out = w.batches.take(out); out == nil {
			return len(event), nil
		}
		out = eventOf(out)
	}
	if _, err := w.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(event), nil
}

func eventOf(message []byte) []byte {
	event := append([]byte(eventStart), bytes.TrimRight(message, "\n")...)
	return append(event, eventEnd...)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *batchWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// messages are those that a client posted, one or a batch, of which what is no
// message is answered.
func (w *batchWriter) messages(body []byte) ([][]byte, error) {
	var posted []json.RawMessage
	if json.Unmarshal(body, &posted) != nil {
		return [][]byte{body}, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answer, serve := invalidRequest, [][]byte(nil) // no messages are no batch (JSON-RPC 2.0, 6)
	if len(posted) > 0 {
		var b *batch
		b, serve = w.batches.begin(posted)
		answer = b.done()
	}
	if answer == nil || w.ended {
		return serve, nil
	}
	_, err := w.ResponseWriter.Write(eventOf(answer))
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return serve, err
}
