package openapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// chooseSecurity returns the first alternative for which the configuration has the credentials, or
// false if there is none. An operation without security needs none.
func chooseSecurity(alternatives [][]scheme, auth map[string]string) ([]scheme, bool) {
	if len(alternatives) == 0 {
		return nil, true
	}
	anonymous := false
	for _, needed := range alternatives {
		if len(needed) == 0 {
			anonymous = true
			continue
		}
		if !slices.ContainsFunc(needed, func(s scheme) bool { return auth[s.name] == "" }) {
			return needed, true
		}
	}
	return nil, anonymous
}

func schemeNames(schemes []scheme) []string {
	names := make([]string, len(schemes))
	for i, s := range schemes {
		names[i] = s.name
	}
	return names
}

// header returns the header that carries the credential of s, or "" if none does.
func (s scheme) header() string {
	switch {
	case s.kind == basic || s.kind == bearer:
		return "Authorization"
	case s.in == "query" || s.in == "cookie":
		return ""
	}
	return s.key
}

// hasHeader reports whether headers has one of that name.
func hasHeader(headers map[string]string, name string) bool {
	for header := range headers {
		if name != "" && strings.EqualFold(header, name) {
			return true
		}
	}
	return false
}

// apply adds the credential of s to the request.
func (s scheme) apply(ctx context.Context, request *http.Request, query url.Values, value string, secrets *secretref.Secrets) error {
	credential, err := secrets.Expand(ctx, value)
	if err != nil {
		return err
	}
	secrets.Hide(credential)
	secrets.Hide(url.QueryEscape(credential))
	secrets.Hide(escapeCookie(credential))
	if _, err := httpcall.HeaderValue(credential); err != nil {
		return toolroom.Errorf(toolroom.CodeExecutionFailed, "auth.%s cannot be sent: %w", s.name, err)
	}
	switch {
	case s.kind == basic:
		encoded := base64.StdEncoding.EncodeToString([]byte(credential))
		secrets.Hide(encoded)
		request.Header.Set("Authorization", "Basic "+encoded)
	case s.kind == bearer:
		// The word is often stored with the token.
		request.Header.Set("Authorization", "Bearer "+strings.TrimPrefix(credential, "Bearer "))
	case s.in == "query":
		query.Set(s.key, credential)
	case s.in == "cookie":
		request.AddCookie(&http.Cookie{Name: s.key, Value: cookieValue(credential)})
	default:
		request.Header.Set(s.key, credential)
	}
	return nil
}

// cookieValue returns a credential as it is, because services compare it so, unless it has
// characters that a cookie cannot have.
func cookieValue(credential string) string {
	for i := range len(credential) {
		if c := credential[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`",;\`, c) >= 0 {
			return escapeCookie(credential)
		}
	}
	return credential
}

// escapeCookie escapes a value for a cookie. Unlike in a query, + stays itself when services
// decode it, so a space is %20.
func escapeCookie(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}
