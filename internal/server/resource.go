package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// resource is the server as an OAuth 2.0 protected resource. It verifies tokens and
// knows the scopes that tools need.
type resource struct {
	*auth.Verifier
	// needed returns the scopes that a tool needs.
	needed func(*toolroom.Tool) []string
}

// newResource returns nil if the config has no authorization servers. needed returns the
// scopes that a tool needs.
func newResource(c config.Server, needed func(*toolroom.Tool) []string) *resource {
	o := c.Auth.OAuth
	if o == nil {
		return nil
	}
	r := &resource{needed: needed}
	url := o.Resource
	if url == "" {
		url = strings.TrimSuffix(c.URL, "/") + "/mcp"
	}
	r.Verifier = auth.NewVerifier(auth.VerifierOptions{
		Issuers: o.Issuers, Resource: url, GroupsClaim: o.GroupsClaim, SetClaim: o.SetClaim, Scopes: o.Required,
	})
	return r
}

// lacking returns the scopes that a caller lacks for a tool.
func (r *resource) lacking(who toolroom.Identity, t *toolroom.Tool) []string {
	return r.MissingScopes(who, r.needed(t)...)
}

// verify returns a function that verifies tokens of the authorization servers and our own.
func (r *resource) verify(own func(context.Context, string) (toolroom.Identity, error)) func(context.Context, string) (toolroom.Identity, error) {
	return func(ctx context.Context, bearer string) (toolroom.Identity, error) {
		if auth.IsJWT(bearer) {
			return r.Verify(ctx, bearer)
		}
		return own(ctx, bearer)
	}
}

// challenge returns the header WWW-Authenticate for a client without a valid token.
func (r *resource) challenge(problem string) string { return r.Challenge(problem, r.BaseScopes()) }

// guarded refuses callers that lack the scopes that every request needs.
func (r *resource) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who := auth.Identity(req.Context())
		if missing := r.MissingScopes(who); len(missing) > 0 {
			r.Refuse(w, who, missing)
			return
		}
		next.ServeHTTP(w, req)
	})
}
