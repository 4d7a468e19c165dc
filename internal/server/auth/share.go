package auth

import (
	"net/http"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// DefaultShare is how many requests and streams of one caller are served at once.
const DefaultShare = 512

// share counts the requests of each caller that are being served, bodies and streams
// included, so that one token cannot take the whole server.
type share struct {
	most int
	mu   sync.Mutex
	open map[string]int
}

// enter counts a request until leave is called. It is false if the caller has too many. The
// local operator is not limited.
func (s *share) enter(who toolroom.Identity) (leave func(), ok bool) {
	if IsLocal(who) {
		return func() {}, true
	}
	key := who.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[key] >= s.most {
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

func (s *share) refuse(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	e := toolroom.Errorf(toolroom.CodeRateLimited, "this caller has %d requests and streams open, the most at once", s.most)
	e.Retryable = true
	problem.Write(w, e.WithHint("close streams that are not read, or wait for answers"))
}
