package mcpserver

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// refusalWriter writes JSON-RPC errors in place of the texts with status 400 by which the
// SDK refuses messages: clients read only JSON.
type refusalWriter struct {
	http.ResponseWriter
	m *incoming // nil if the body is not one message
	// streamable says that the client reads answers from the response. Clients of HTTP+SSE
	// learn of a refusal only by the status.
	streamable bool
	refuses    bool
}

// WriteHeader begins the answer. The SDK has no other sign of its refusals than their form.
func (w *refusalWriter) WriteHeader(status int) {
	if h := w.Header(); status == http.StatusBadRequest && strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
		w.refuses = true
		h.Set("Content-Type", "application/json")
		h.Del("Content-Length")
		return // Write knows the status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write writes a part of the answer. A refusal has only one.
func (w *refusalWriter) Write(text []byte) (int, error) {
	if !w.refuses {
		return w.ResponseWriter.Write(text)
	}
	status, code, message := http.StatusBadRequest, int64(jsonrpc.CodeInvalidRequest), strings.TrimSpace(string(text))
	var id json.RawMessage
	if w.m != nil && w.m.id != nil {
		id = w.m.id
		if strings.HasPrefix(message, "JSON RPC not handled: ") {
			code, message = jsonrpc.CodeMethodNotFound, "method not found: "+strconv.Quote(w.m.method)
			if w.streamable {
				status = http.StatusOK
			}
		}
	}
	w.ResponseWriter.WriteHeader(status)
	if _, err := w.ResponseWriter.Write(refusal(code, id, message)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Flush sends what is written.
func (w *refusalWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap lets http.ResponseController reach the connection.
func (w *refusalWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
