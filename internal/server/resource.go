package server

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/oauth"
)

// resource is the server as an OAuth 2.0 protected resource: who its tokens are
// for, and which scopes tools need.
type resource struct {
	*oauth.Verifier
	scopes map[string][]policy.Pattern
}

// newResource is nil where the config has no authorization servers.
func newResource(c config.Server) (*resource, error) {
	o := c.Auth.OAuth
	if o == nil {
		return nil, nil
	}
	r := &resource{scopes: map[string][]policy.Pattern{}}
	for scope, patterns := range o.Scopes {
		var err error
		if r.scopes[scope], err = policy.ParsePatterns(patterns); err != nil {
			return nil, err
		}
	}
	url := o.Resource
	if url == "" {
		url = strings.TrimSuffix(c.URL, "/") + "/mcp"
	}
	r.Verifier = oauth.New(oauth.Options{
		Issuers: o.Issuers, Resource: url, GroupsClaim: o.GroupsClaim, Scopes: o.Required,
	})
	return r, nil
}

// needed are the scopes of a tool.
func (r *resource) needed(t *toolroom.Tool) []string {
	var needed []string
	for _, scope := range slices.Sorted(maps.Keys(r.scopes)) {
		if policy.AnyMatches(r.scopes[scope], t) {
			needed = append(needed, scope)
		}
	}
	return needed
}

// lacking are the scopes that a caller lacks for a tool.
func (r *resource) lacking(who toolroom.Identity, t *toolroom.Tool) []string {
	return r.Missing(who, r.needed(t)...)
}

// verify takes tokens of the authorization servers besides our own.
func (r *resource) verify(own func(context.Context, string) (toolroom.Identity, error)) func(context.Context, string) (toolroom.Identity, error) {
	return func(ctx context.Context, bearer string) (toolroom.Identity, error) {
		if oauth.Understands(bearer) {
			return r.Verify(ctx, bearer)
		}
		return own(ctx, bearer)
	}
}

// challenge tells a client without a good token where to get one.
func (r *resource) challenge(problem string) string { return r.Challenge(problem, r.Base()) }

// guarded refuses callers that lack what every request needs.
func (r *resource) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		who := auth.Identity(req.Context())
		if missing := r.Missing(who); len(missing) > 0 {
			r.Refuse(w, who, missing)
			return
		}
		next.ServeHTTP(w, req)
	})
}
