package auth

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// How long a peer may keep us waiting.
const (
	// bodyPatience is for a whole request body.
	bodyPatience = 2 * time.Minute
	// writePatience is for one write to a client that does not read. There is
	// no limit for a whole answer, since a stream may last for days.
	writePatience = 30 * time.Second
)

// Server is an HTTP server with the limits that keep slow and hostile
// connections from piling up. It has no WriteTimeout, which would cut streams;
// the middleware bounds each write.
func Server(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr:              addr,
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
	}
}

type requestKey struct{}

// RequestID names the request in logs and in the header X-Request-Id of its
// answer. It is empty outside of the middleware.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// guard names the request and answers for a handler that panics.
func (o *Options) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := "req_" + strings.ToLower(rand.Text()[:16])
		w.Header().Set("X-Request-Id", id)
		answer := &answer{ResponseWriter: w, rc: http.NewResponseController(w)}
		defer answer.allowWrite() // for what the server itself still has to flush
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if v == http.ErrAbortHandler {
				panic(v)
			}
			o.Log.Error("a request panicked", "request", id, "method", r.Method, "path", r.URL.Path, "panic", v, "stack", string(debug.Stack()))
			if answer.begun {
				// Half an answer must not look like a whole one.
				panic(http.ErrAbortHandler)
			}
			problem.Write(answer, toolroom.Errorf(toolroom.CodeInternal, "the server failed on this request").
				WithHint("look for %s in the server's log", id))
		}()
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), requestKey{}, id)))
	})
}

// answer is a response writer that knows whether it has begun, and gives up on
// clients that do not read.
type answer struct {
	http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) WriteHeader(status int) {
	a.begun = a.begun || status >= http.StatusOK
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(p []byte) (int, error) {
	a.begun = true
	a.allowWrite()
	return a.ResponseWriter.Write(p)
}

// Flush and FlushError serve callers that do not use a ResponseController, and
// those that do.
func (a *answer) Flush() { a.FlushError() }

func (a *answer) FlushError() error {
	a.begun = true
	a.allowWrite()
	return a.rc.Flush()
}

// allowWrite drops its error on purpose: writers that know no deadlines, such
// as those of tests, are served without.
func (a *answer) allowWrite() { a.rc.SetWriteDeadline(time.Now().Add(writePatience)) }

func (o *Options) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > o.MaxBody {
			problem.Write(w, &http.MaxBytesError{Limit: o.MaxBody})
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = &patientBody{ReadCloser: http.MaxBytesReader(w, r.Body, o.MaxBody), rc: http.NewResponseController(w)}
		}
		next.ServeHTTP(w, r)
	})
}

// patientBody gives the client bodyPatience from the first read on.
type patientBody struct {
	io.ReadCloser
	rc      *http.ResponseController
	reading bool
}

func (b *patientBody) Read(p []byte) (int, error) {
	if !b.reading {
		b.reading = true
		b.rc.SetReadDeadline(time.Now().Add(bodyPatience))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		// A deadline left on the connection would end the request's context,
		// and with it the call, while the tool runs.
		b.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
