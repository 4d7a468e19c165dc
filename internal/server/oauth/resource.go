package oauth

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// wellKnown is where clients look for the metadata of a resource, with its path
// behind (RFC 9728 section 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// MetadataPaths are the paths of [Verifier.Metadata]: with the resource's own
// path, and without for clients that know no better.
func (v *Verifier) MetadataPaths() []string {
	u, err := url.Parse(v.o.Resource)
	if err != nil || u.Path == "" || u.Path == "/" {
		return []string{wellKnown}
	}
	return []string{wellKnown + u.Path, wellKnown}
}

// Metadata says where tokens for this server are to be had, and which scopes
// there are.
func (v *Verifier) Metadata(scopes []string) http.Handler {
	body, err := json.Marshal(map[string]any{
		"resource":                 v.o.Resource,
		"authorization_servers":    v.o.Issuers,
		"scopes_supported":         v.all(scopes),
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
		// A client that does not read it has gone.
		_, _ = w.Write(body)
	})
}

func (v *Verifier) all(scopes []string) []string {
	all := slices.Concat(v.o.Scopes, scopes)
	slices.Sort(all)
	return slices.Compact(all)
}

// Missing are the scopes that a caller lacks of those wanted and of those that
// every request needs. A caller without a token of an authorization server lacks
// none.
func (v *Verifier) Missing(who toolroom.Identity, wanted ...string) []string {
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

// Challenge is what a refused request is told (RFC 6750, RFC 9728): where the
// metadata is, what is wrong (empty when no token came), and the scopes to ask
// for.
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

// Refuse answers a request whose token lacks scopes. The challenge names what the
// token has as well, so that a client which asks anew loses nothing.
func (v *Verifier) Refuse(w http.ResponseWriter, who toolroom.Identity, missing []string) {
	w.Header().Set("WWW-Authenticate", v.Challenge("insufficient_scope", append(slices.Clone(who.Scopes), missing...)))
	http.Error(w, "the token lacks the scope "+strings.Join(missing, ", "), http.StatusForbidden)
}

// Base are the scopes that every request needs.
func (v *Verifier) Base() []string { return v.o.Scopes }
