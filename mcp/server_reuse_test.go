package mcp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// reader is a client that acts as soon as the first byte of an answer is on its way.
type reader struct {
	http.ResponseWriter
	reads func()
}

func (r *reader) Flush() {}

func (r *reader) Write(text []byte) (int, error) {
	if r.reads != nil && strings.Contains(string(text), `"id":1`) {
		reads := r.reads
		r.reads = nil
		reads()
	}
	return r.ResponseWriter.Write(text)
}

// TestAnIDIsFreeBeforeItsAnswerArrives tests that a client may use the id of a request
// again once it has the answer, alone and in a batch.
func TestAnIDIsFreeBeforeItsAnswerArrives(t *testing.T) {
	t.Parallel()
	s, url := plainServer(t, ServerOptions{})
	response, _ := send(t, http.MethodPost, url, "", initialize)
	session := response.Header.Get(sessionHeader)
	post := func(w http.ResponseWriter, body string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set(sessionHeader, session)
		s.HTTP().ServeHTTP(w, r)
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for _, first := range []string{ping, "[" + ping + "]"} {
		again := httptest.NewRecorder()
		out := httptest.NewRecorder()
		post(&reader{out, func() { post(again, ping) }}, first)
		if !strings.Contains(again.Body.String(), `"result":{}`) {
			t.Errorf("after the answer to %s, the same id is answered with %q; first: %q", first, again.Body, out.Body)
		}
	}
}
