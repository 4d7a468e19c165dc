package server

import (
	"cmp"
	"net/http"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// inEnvironment reads the environment that a request names, and refuses unknown ones. A token
// that is bound to an environment can name no other.
func inEnvironment(next http.Handler, check func(name string) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, bound := r.Header.Get(auth.EnvironmentHeader), auth.Identity(r.Context()).Environment
		if bound != "" && name != "" && name != bound {
			problem.Write(w, toolroom.Errorf(toolroom.CodeDenied, "your token is bound to the environment %s", bound).
				WithHint("leave the header %s out", auth.EnvironmentHeader))
			return
		}
		name = cmp.Or(name, bound)
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
