package server

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/secret"
)

// redactResponses is middleware that removes known secrets from every HTTP response: headers,
// documents and streams. A response without secrets stays byte for byte.
func redactResponses(next http.Handler, secrets *secret.Redactor) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &redactedResponse{next: w, secrets: secrets}
		next.ServeHTTP(out, r)
		// An error means that the client has gone.
		_ = out.end()
	})
}

// maxDocument is the maximum size of a response that is buffered so that its length is
// known. A longer response is sent piece by piece. JSON, which must stay valid, is
// always buffered whole; handlers have it in memory anyway.
const maxDocument = 1 << 20

// redactedResponse redacts one response. It sends events and other lines line by line,
// and other responses when they end.
type redactedResponse struct {
	next    http.ResponseWriter
	secrets *secret.Redactor

	mu       sync.Mutex // handlers flush while they write
	status   int        // written by the handler; 0 for none yet
	sent     bool
	buffered bytes.Buffer
	body     io.WriteCloser // redacts a response that is sent in pieces
}

// Header returns the headers. They are redacted when they are sent.
func (r *redactedResponse) Header() http.Header { return r.next.Header() }

// WriteHeader records the status. It is sent with the first bytes.
func (r *redactedResponse) WriteHeader(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begin(status)
}

func (r *redactedResponse) begin(status int) {
	switch {
	case r.status != 0:
	case status < http.StatusOK && status != http.StatusSwitchingProtocols:
		r.redactHeaders()
		r.next.WriteHeader(status)
	default:
		r.status = status
		if isLines(r.Header().Get("Content-Type")) {
			r.body = r.secrets.Lines(r.next)
		}
	}
}

// isLines reports whether clients read a media type line by line.
func isLines(contentType string) bool {
	if contentType == "application/json" {
		return false // the usual type, which needs no parsing
	}
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (kind == "text/event-stream" || strings.HasSuffix(kind, "ndjson") || strings.HasSuffix(kind, "jsonl"))
}

func isJSON(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && (strings.HasSuffix(kind, "/json") || strings.HasSuffix(kind, "+json"))
}

// Write writes a part of the body.
func (r *redactedResponse) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.begin(http.StatusOK)
	}
	switch {
	case r.body != nil:
		r.sendHeaders()
		return r.body.Write(p)
	case r.buffered.Len() == 0 && r.Header().Get("Content-Length") == strconv.Itoa(len(p)):
		return len(p), r.sendDocument(p)
	case r.buffered.Len()+len(p) <= maxDocument || isJSON(r.Header().Get("Content-Type")):
		return r.buffered.Write(p)
	}
	if err := r.startStream(); err != nil {
		return 0, err
	}
	return r.body.Write(p)
}

// sendDocument sends a whole response.
func (r *redactedResponse) sendDocument(text []byte) error {
	clean := r.secrets.Redact(text)
	if len(clean) != len(text) && r.Header().Get("Content-Length") != "" {
		r.Header().Set("Content-Length", strconv.Itoa(len(clean)))
	}
	r.sendHeaders()
	_, err := r.next.Write(clean)
	return err
}

// startStream begins to send a response before its end. Its length is unknown, because
// redaction may change it.
func (r *redactedResponse) startStream() error {
	r.Header().Del("Content-Length")
	r.body = r.secrets.Writer(r.next)
	r.sendHeaders()
	_, err := r.body.Write(r.buffered.Bytes())
	r.buffered = bytes.Buffer{}
	return err
}

// sendHeaders sends the status and headers.
func (r *redactedResponse) sendHeaders() {
	if r.sent {
		return
	}
	r.sent = true
	r.redactHeaders()
	if r.status != 0 {
		r.next.WriteHeader(r.status)
	}
}

// redactHeaders redacts the headers.
func (r *redactedResponse) redactHeaders() {
	for name, values := range r.Header() {
		for i, value := range values {
			if clean := r.secrets.Text(value); clean != value {
				values = append([]string(nil), values...) // the list may be shared
				values[i] = clean
				r.Header()[name] = values
			}
		}
	}
}

// FlushError sends the redacted part of the response. http.ResponseController calls it.
func (r *redactedResponse) FlushError() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.status == 0 {
		r.begin(http.StatusOK)
	}
	if r.body == nil {
		if err := r.startStream(); err != nil {
			return err
		}
	}
	r.sendHeaders()
	return http.NewResponseController(r.next).Flush()
}

// Flush calls FlushError.
func (r *redactedResponse) Flush() { _ = r.FlushError() }

// end sends the rest after the handler has returned.
func (r *redactedResponse) end() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.body != nil:
		r.sendHeaders()
		return r.body.Close()
	case r.status == 0, r.buffered.Len() == 0:
		r.sendHeaders()
		return nil
	default:
		return r.sendDocument(r.buffered.Bytes())
	}
}

// Unwrap lets http.ResponseController set deadlines.
func (r *redactedResponse) Unwrap() http.ResponseWriter { return r.next }

// redactedLines redacts a stream of lines. Closing it closes the stream.
type redactedLines struct {
	*secret.LineWriter
	io.Closer
}

// Close closes the stream. It drops an incomplete line, which is not a message.
func (l redactedLines) Close() error { return l.Closer.Close() }
