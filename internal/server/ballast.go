package server

import (
	"net/http"
	"sync"
)

// ballastSize is how much garbage there is, in bytes, before the collector looks
// for it, beyond what is in use. With the little that a server has in use it would
// begin thirty times a second under load.
const ballastSize = 32 << 20

// ballast is memory that nobody touches. It takes none of the machine's, and
// counts with the collector, which begins when what is in use has doubled.
type ballast struct {
	once sync.Once
	room []byte
}

// under takes the ballast in with the first request: a server that nobody uses
// stays small.
func (b *ballast) under(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.once.Do(func() { b.room = make([]byte, ballastSize) })
		next.ServeHTTP(w, r)
	})
}
