package server

import (
	"cmp"
	"net/http"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// setPath is the path of MCP for the clients of a tool set, before its name.
const setPath = "/mcp/p/"

// inSet narrows the callers of an MCP endpoint to the tool set in the path. A token that is
// bound to another set is refused, and does not learn which sets there are.
func inSet(next http.Handler, r *app.App) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		name, who := req.PathValue("set"), auth.Identity(req.Context())
		if who.Set != "" && who.Set != name {
			problem.Write(w, toolroom.Errorf(toolroom.CodeDenied, "your token is bound to the tool set %s", who.Set).
				WithHint("use /mcp or %s%s", setPath, who.Set))
			return
		}
		if err := r.CheckSet(name); err != nil {
			problem.Write(w, err)
			return
		}
		who.Set = name
		next.ServeHTTP(w, req.WithContext(auth.WithIdentity(req.Context(), who)))
	})
}

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
