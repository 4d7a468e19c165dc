package server

import (
	"crypto/rand"
	_ "embed"
	"html"
	"net/http"
	"strings"

	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/visible"
)

//go:embed page.html
var pageHTML string

// page returns a handler that serves the page at /. Only the page's own script runs; it
// has the token that decisions need.
func page(version string, key auth.PageKey) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nonce := rand.Text()
		h := w.Header()
		h.Set("Content-Type", "text/html; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-"+nonce+
			"'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		// An error means that the client has gone.
		who := ""
		if id := auth.Identity(r.Context()); !auth.IsLocal(id) {
			who = id.Subject
		}
		_, _ = strings.NewReplacer("{{version}}", html.EscapeString(version), "{{who}}", html.EscapeString(visible.Text(who)), "{{nonce}}", nonce, "{{token}}", key.Token(r.Host)).WriteString(w, pageHTML)
	})
}
