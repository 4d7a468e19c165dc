package server

import (
	"net/http"

	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// inEnvironment reads the environment that a request names, and refuses unknown ones.
func inEnvironment(next http.Handler, check func(name string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get(auth.EnvironmentHeader)
		if name == "" {
			next.ServeHTTP(w, r)
			return
		}
		if err := check(name); err != nil {
			problem.Write(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(auth.WithEnvironment(r.Context(), name)))
	})
}
