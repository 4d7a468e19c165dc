package auth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// wellKnown is the path of a resource's metadata, to which the resource's own path is
// appended (RFC 9728 section 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataPaths returns the paths of [Verifier.Metadata]: with the resource's own path,
// and without it for clients that do not append it.
func (v *Verifier) MetadataPaths() []string {
	u, err := url.Parse(v.o.Resource)
	if err != nil || u.Path == "" || u.Path == "/" {
		return []string{wellKnown}
	}
	return []string{wellKnown + u.Path, wellKnown}
}

// Metadata returns a handler that serves the metadata of this resource: its
// authorization servers and scopes.
func (v *Verifier) Metadata(scopes []string) http.Handler {
	body, err := json.Marshal(map[string]any{
		"resource":                 v.o.Resource,
		"authorization_servers":    v.o.Issuers,
		"scopes_supported":         v.allScopes(scopes),
		"bearer_methods_supported": []string{"header"},
		"resource_name":            "Toolroom",
	})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		w.Header().Set("Cache-Control", "max-age=300")
		// An error means that the client has gone.
		_, _ = w.Write(body)
	})
}

func (v *Verifier) allScopes(scopes []string) []string {
	all := slices.Concat(v.o.Scopes, scopes)
	slices.Sort(all)
	return slices.Compact(all)
}

// MissingScopes returns the scopes that a caller lacks, of those wanted and those that every
// request needs. It returns none for a caller without a token of an authorization
// server.
func (v *Verifier) MissingScopes(who toolroom.Identity, wanted ...string) []string {
	if who.Scopes == nil {
		return nil
	}
	var missing []string
	for _, scope := range slices.Concat(v.o.Scopes, wanted) {
		if !slices.Contains(who.Scopes, scope) && !slices.Contains(missing, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// Challenge returns the header WWW-Authenticate for a refused request (RFC 6750, RFC
// 9728): the address of the metadata, the problem (empty if the client sent no token),
// and the scopes to request.
func (v *Verifier) Challenge(problem string, scopes []string) string {
	u, err := url.Parse(v.o.Resource)
	if err != nil {
		return "Bearer"
	}
	parts := []string{`resource_metadata="` + u.Scheme + "://" + u.Host + v.MetadataPaths()[0] + `"`}
	if problem != "" {
		parts = append([]string{`error="` + problem + `"`}, parts...)
	}
	if len(scopes) > 0 {
		parts = append(parts, `scope="`+strings.Join(scopes, " ")+`"`)
	}
	return "Bearer " + strings.Join(parts, ", ")
}

// Refuse responds to a request whose token lacks scopes. The challenge also names the
// scopes that the token has, so that a client does not lose them with the next token.
func (v *Verifier) Refuse(w http.ResponseWriter, who toolroom.Identity, missing []string) {
	w.Header().Set("WWW-Authenticate", v.Challenge("insufficient_scope", append(slices.Clone(who.Scopes), missing...)))
	http.Error(w, "the token lacks the scope "+strings.Join(missing, ", "), http.StatusForbidden)
}

// BaseScopes returns the scopes that every request needs.
func (v *Verifier) BaseScopes() []string { return v.o.Scopes }
