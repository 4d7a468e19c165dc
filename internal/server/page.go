package server

import (
	_ "embed"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

// page is what a person sees who opens the address in a browser.
func page(version string) http.Handler {
	body := strings.ReplaceAll(pageHTML, "{{version}}", version)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(body))
	})
}
