package mcpserver

import (
	"net/http"
	"strings"
	"sync"
	"time"
)

// keepAlivePeriod is how long a stream may be silent: proxies cut those that are
// silent for a minute.
const keepAlivePeriod = 15 * time.Second

// keepAlive serves a request whose answer may be a stream, and writes a comment
// into the stream when nothing else is written.
func (s *Server) keepAlive(next http.Handler, w http.ResponseWriter, r *http.Request, period time.Duration) {
	stream := &aliveWriter{ResponseWriter: w, period: period, standIns: s.standIns}
	defer stream.end()
	next.ServeHTTP(stream, r)
}

// aliveWriter writes what it is given, and comments between the events of a
// silent stream.
type aliveWriter struct {
	http.ResponseWriter
	period time.Duration
	// standIns are what parts may have in them.
	standIns standIns

	mu     sync.Mutex
	timer  *time.Timer // set once the answer is a stream
	within bool        // the last byte did not end a line
	ended  bool
}

// Write writes a part of the answer.
func (a *aliveWriter) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	if len(p) > 0 {
		a.within = p[len(p)-1] != '\n'
	}
	if _, err := a.ResponseWriter.Write(a.standIns.plain(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteHeader begins the answer.
func (a *aliveWriter) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	a.ResponseWriter.WriteHeader(status)
}

// Flush sends what is written.
func (a *aliveWriter) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin()
	_ = http.NewResponseController(a.ResponseWriter).Flush()
}

// Unwrap lets http.ResponseController reach the connection.
func (a *aliveWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// begin starts the clock of a stream, or starts it again.
func (a *aliveWriter) begin() {
	switch {
	case a.timer != nil:
		a.timer.Reset(a.period)
	case strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream"):
		a.Header().Set("X-Accel-Buffering", "no")
		a.timer = time.AfterFunc(a.period, a.comment)
	}
}

func (a *aliveWriter) comment() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if !a.within {
		// A client that is not there any more ends the request.
		_, _ = a.ResponseWriter.Write([]byte(": alive\n\n"))
		_ = http.NewResponseController(a.ResponseWriter).Flush()
	}
	a.timer.Reset(a.period)
}

// end keeps a comment from being written after the handler has returned.
func (a *aliveWriter) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
