package server

import (
	"net/http"
	"sync"
)

// ballastSize is the number of bytes that are allocated, in addition to the memory in
// use, before the garbage collector starts. A server has so little memory in use that
// the collector would otherwise start thirty times a second under load.
const ballastSize = 32 << 20

// ballast is memory that is never touched. It takes no physical memory, but counts for
// the garbage collector, which starts when the memory in use has doubled.
type ballast struct {
	once   sync.Once
	memory []byte
}

// under returns middleware that allocates the ballast at the first request, so that an
// unused server stays small.
func (b *ballast) under(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.once.Do(func() { b.memory = make([]byte, ballastSize) })
		next.ServeHTTP(w, r)
	})
}
