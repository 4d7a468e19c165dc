package auth

import (
	"net"
	"net/http"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// DefaultMaxPerCaller is how many requests and streams of one caller are served at once.
const DefaultMaxPerCaller = 512

// callerLimit counts the requests of each caller that are being served, bodies and streams
// included, so that one token, or one address without any, cannot take the whole server.
type callerLimit struct {
	limit int
	mu    sync.Mutex
	open  map[string]int
}

// callerKey returns the key under which the requests of a caller count; empty for the local
// operator, who is not limited.
func callerKey(who toolroom.Identity) string {
	if IsLocal(who) {
		return ""
	}
	return "caller " + who.Key()
}

// addressKey returns the key under which requests to a path that needs no token count. Paths
// count apart: who floods one does not keep a probe from another.
func addressKey(r *http.Request, path string) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host + " " + path
}

// enter counts a request until leave is called. It is false if there are too many of key.
func (s *callerLimit) enter(key string) (leave func(), ok bool) {
	if key == "" {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] >= s.limit {
		return nil, false
	}
	s.open[key]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open[key]--; s.open[key] == 0 {
			delete(s.open, key)
		}
	}, true
}

// Anonymous returns middleware for a handler that needs no identity: it recovers from panics,
// limits bodies, and limits how many requests of one address are served at once.
func Anonymous(o Options) func(http.Handler) http.Handler {
	o.setDefaults()
	shares := &callerLimit{limit: o.MaxPerCaller, open: map[string]int{}}
	return func(next http.Handler) http.Handler {
		return o.recoverPanics(o.limitBody(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			leave, ok := shares.enter(addressKey(r, ""))
			if !ok {
				shares.refuse(w)
				return
			}
			defer leave()
			next.ServeHTTP(w, r)
		})))
	}
}

func (s *callerLimit) refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	e := toolroom.Errorf(toolroom.CodeRateLimited, "this caller has %d requests and streams open, the most at once", s.limit)
	e.Retryable = true
	problem.Write(w, e.WithHint("close streams that are not read, or wait for answers"))
}
