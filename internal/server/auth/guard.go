package auth

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Timeouts of slow clients.
const (
	// bodyTimeout limits reading a whole request body.
	bodyTimeout = 2 * time.Minute
	// drainTimeout limits reading the rest of a body that was refused as too large.
	drainTimeout = 10 * time.Second
	// writeTimeout limits one write to a client that does not read. A whole
	// response has no limit, because a stream may last for days.
	writeTimeout = 30 * time.Second
)

// Server returns an HTTP server with limits that keep slow and hostile connections
// from piling up. It has no WriteTimeout, which would cut streams; the middleware
// limits each write.
func Server(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       ConnContext,
	}
}

// request holds the data about a request in its context.
type request struct {
	id  string
	who toolroom.Identity
	// valid reports whether what the request was let in with still says who; nil if nothing did.
	valid func() bool
}

type requestKey struct{}

func requestOf(ctx context.Context) request {
	r, _ := ctx.Value(requestKey{}).(request)
	return r
}

// RequestID returns the id of the request, which is in logs and in the header
// X-Request-Id of the response. It is empty without the middleware.
func RequestID(ctx context.Context) string { return requestOf(ctx).id }

// recoverPanics sets the request id and responds with an error if the handler panics.
func (o *Options) recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := "req_" + strings.ToLower(rand.Text()[:16])
		w.Header().Set("X-Request-Id", id)
		resp := &response{ResponseWriter: w, rc: http.NewResponseController(w)}
		defer resp.extendDeadline() // for the data that net/http flushes afterwards
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			o.Log.Error("panic in a request", "request", id, "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			if resp.begun {
				// Half a response must not look like a whole one.
				panic(http.ErrAbortHandler)
			}
			problem.Write(resp, toolroom.Errorf(toolroom.CodeInternal, "the server failed on this request").
				WithHint("look for %s in the server's log", id))
		}()
		next.ServeHTTP(resp, r.WithContext(context.WithValue(r.Context(), requestKey{}, request{id: id})))
	})
}

// response is a response writer that records whether the response has begun, and
// limits each write to a client that does not read.
type response struct {
	http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *response) WriteHeader(status int) {
	r.begun = r.begun || status >= http.StatusOK
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(p []byte) (int, error) {
	r.begun = true
	r.extendDeadline()
	return r.ResponseWriter.Write(p)
}

// Flush and FlushError serve callers that do not use a ResponseController, and
// those that do.
func (r *response) Flush() { r.FlushError() }

func (r *response) FlushError() error {
	r.begun = true
	r.extendDeadline()
	return r.rc.Flush()
}

// extendDeadline sets the deadline of the next write. It ignores the error of writers
// without deadlines, such as those of tests.
func (r *response) extendDeadline() { r.rc.SetWriteDeadline(time.Now().Add(writeTimeout)) }

func (o *Options) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		rc := http.NewResponseController(w)
		if r.ContentLength > o.MaxBody {
			problem.Write(w, &http.MaxBytesError{Limit: o.MaxBody})
			if r.Header.Get("Expect") == "" { // with Expect: 100-continue the client sends no body now
				drain(r, r.Body, rc)
			}
			return
		}
		// Also for bodies that no handler reads: the server reads these after it.
		body := &timedBody{ReadCloser: http.MaxBytesReader(w, r.Body, o.MaxBody), rc: rc}
		rc.SetReadDeadline(time.Now().Add(bodyTimeout))
		whole := r.Body
		r.Body = body
		next.ServeHTTP(w, r)
		if body.tooLarge.Load() {
			drain(r, whole, rc)
		}
	})
}

// drain sends the response and then reads the rest of the body for some time. A connection that
// is closed with unread data is reset, and a client that sends its whole body before it reads
// would lose the response. It does nothing for HTTP/2, which has no such reset and whose clients
// would wait for the end of the response.
func drain(r *http.Request, body io.Reader, rc *http.ResponseController) {
	if r.ProtoMajor > 1 {
		return
	}
	// The deadline is first, and stays if it has passed: the server reads the body as well,
	// before it sends the header and after the handler.
	if rc.SetReadDeadline(time.Now().Add(drainTimeout)) != nil || rc.Flush() != nil {
		return
	}
	if _, err := io.Copy(io.Discard, body); err == nil {
		rc.SetReadDeadline(time.Time{})
	}
}

// timedBody is a request body that must arrive within bodyTimeout.
type timedBody struct {
	io.ReadCloser
	rc       *http.ResponseController
	tooLarge atomic.Bool
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch tooLarge := (*http.MaxBytesError)(nil); {
	case err == io.EOF:
		// If the deadline stayed on the connection, it would end the request's
		// context, and with it the call, while the tool runs. After other errors it
		// stays: the server tries to read the rest of the body before it answers.
		b.rc.SetReadDeadline(time.Time{})
	case errors.As(err, &tooLarge):
		b.tooLarge.Store(true)
	}
	return n, err
}
