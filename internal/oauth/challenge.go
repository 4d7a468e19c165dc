package oauth

import (
	"net/http"
	"strings"
)

// challenge is the authorization that a server requests with status 401 or 403
// (RFC 6750, 3; RFC 9728, 5.1).
type challenge struct {
	status       int
	err          string
	scopes       []string
	metadata     string
	insufficient bool
}

func readChallenge(resp *http.Response) challenge {
	ch := challenge{status: resp.StatusCode}
	for _, header := range resp.Header.Values("WWW-Authenticate") {
		for name, value := range parameters(header) {
			switch name {
			case "error":
				ch.err = value
			case "scope":
				ch.scopes = strings.Fields(value)
			case "resource_metadata":
				ch.metadata = value
			}
		}
	}
	ch.insufficient = ch.status == http.StatusForbidden && ch.err == "insufficient_scope"
	return ch
}

// parameters reads the parameters of all challenges in a header. It ignores the names
// of the schemes.
func parameters(header string) map[string]string {
	found := map[string]string{}
	for header != "" {
		name, rest, ok := strings.Cut(header, "=")
		if !ok {
			break
		}
		// The scheme or a comma may precede the name.
		if i := strings.LastIndexAny(name, " ,\t"); i >= 0 {
			name = name[i+1:]
		}
		var value string
		if quoted, isQuoted := strings.CutPrefix(rest, `"`); isQuoted {
			value, header = unquote(quoted)
		} else {
			end := strings.IndexAny(rest, ", \t")
			if end < 0 {
				end = len(rest)
			}
			value, header = rest[:end], rest[end:]
		}
		found[strings.ToLower(name)] = value
	}
	return found
}

// unquote reads the rest of a quoted string and returns the text after it.
func unquote(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
