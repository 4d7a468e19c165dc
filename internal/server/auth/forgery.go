package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// PageHeader is the header in which the server's own page sends its token.
const PageHeader = "Toolroom-Page"

// PageKey is the key of the tokens of the server's own page. A token is part of the page's
// document, where only scripts of the page's origin can read it, so a request with a token
// comes from that page. All servers of a home share the key. If it is empty, no token is
// valid.
type PageKey []byte

// Token returns a token for a page that was loaded from host.
func (k PageKey) Token(host string) string {
	nonce := rand.Text()
	return nonce + "." + k.mac(nonce, host)
}

func (k PageKey) isValid(token, host string) bool {
	nonce, sum, ok := strings.Cut(token, ".")
	return ok && len(k) > 0 && hmac.Equal([]byte(sum), []byte(k.mac(nonce, host)))
}

func (k PageKey) mac(nonce, host string) string {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte("page " + nonce + " " + strings.ToLower(host)))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkDecision returns an error if a browser sends a decision that does not come from the
// server's own page. A request with a bearer token needs no page token, because browsers do
// not add bearer tokens by themselves. They do add the cookie of a session, so that requests
// with a session need a page token for every change.
func (o *Options) checkDecision(r *http.Request, session bool) error {
	if !isChange(r) || r.Header.Get("Authorization") != "" || !session && !(o.isDecision(r) && isBrowser(r)) {
		return nil
	}
	if tokens := r.Header.Values(PageHeader); len(tokens) == 1 && o.Page.isValid(tokens[0], r.Host) {
		return nil
	}
	return forbidden("a decision from a browser needs the token of the server's own page, in the header "+PageHeader,
		"reload the page at /; from a program, send a bearer token or no browser headers")
}

// isDecision reports whether a request decides on behalf of a person.
func (o *Options) isDecision(r *http.Request) bool { return isBelow(r.URL.Path, o.Decisions) }

// isBelow reports whether a path is one of prefixes, or below one.
func isBelow(path string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return path == prefix || strings.HasPrefix(path, prefix+"/")
	})
}

// isChange reports whether a request may change something.
func isChange(r *http.Request) bool {
	return !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method)
}

func isBrowser(r *http.Request) bool {
	for name := range r.Header {
		if name == "Origin" || strings.HasPrefix(name, "Sec-") {
			return true
		}
	}
	return false
}

// Secure sets headers that keep every response out of frames and isolate it from the
// windows and documents of other origins. Handlers may set a Content-Security-Policy
// of their own.
func Secure(next http.Handler) http.Handler {
	headers := http.Header{
		"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
		"X-Frame-Options":              {"DENY"},
		"Cross-Origin-Opener-Policy":   {"same-origin"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
		"X-Content-Type-Options":       {"nosniff"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), headers) // all responses share the lists of values
		next.ServeHTTP(w, r)
	})
}
