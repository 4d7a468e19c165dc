package auth

import (
	"net"
	"net/http"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// DefaultMaxPerCaller is the default of Options.MaxPerCaller.
const DefaultMaxPerCaller = 512

// callerLimit counts the requests of each caller that are being served, including bodies and
// streams, so that one token, or one address without a token, cannot use up the server.
type callerLimit struct {
	limit int
	mu    sync.Mutex
	open  map[string]int
}

// callerKey returns the key for counting the requests of a caller. It is empty for the local
// operator, who is not limited.
func callerKey(who toolroom.Identity) string {
	if IsLocal(who) {
		return ""
	}
	return "caller " + who.Key()
}

// addressKey returns the key for counting requests to a path that needs no token. Each path is
// counted separately, so that flooding one does not block probes of another.
func addressKey(r *http.Request, path string) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return "address " + host + " " + path
}

// enter counts a request until leave is called. It returns false if key has too many.
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
