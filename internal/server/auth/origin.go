package auth

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// checkOrigin is middleware that refuses requests from pages of other origins.
func (o *Options) checkOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := o.crossOrigin(r); err != nil {
			problem.Write(w, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// crossOrigin returns an error if a page of another origin makes the request.
// Browsers report it in Origin, and in Sec-Fetch-Site even if they send no Origin;
// a page's scripts can set neither. Programs send neither.
func (o *Options) crossOrigin(r *http.Request) error {
	const hint = "add it to server.origins; behind a proxy that ends TLS, set server.url"
	origins, sites := r.Header.Values("Origin"), r.Header.Values("Sec-Fetch-Site")
	if len(origins) > 1 || len(sites) > 1 {
		return forbidden("the request has more than one header Origin or Sec-Fetch-Site", "send at most one")
	}
	listed := false
	if len(origins) == 1 {
		origin, ok := parseOrigin(origins[0])
		listed = slices.Contains(o.Origins, origins[0]) || ok && slices.ContainsFunc(o.Origins, origin.equals)
		if !listed && (!ok || !o.isOwnOrigin(origin, r)) {
			return forbidden("pages of the origin "+strconv.Quote(origins[0])+" may not call this server", hint)
		}
	}
	if len(sites) == 0 || sites[0] == "same-origin" || sites[0] == "none" || listed || o.opensPage(r) {
		return nil
	}
	return forbidden("the browser says that a page of another origin makes this request (Sec-Fetch-Site: "+strconv.Quote(sites[0])+")", hint)
}

// opensPage reports whether the request follows a link to the page at /, which changes nothing, or
// returns from a login, which a cookie binds to the browser that began it.
func (o *Options) opensPage(r *http.Request) bool {
	return (r.URL.Path == "/" || slices.Contains(o.Links, r.URL.Path)) && (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// isOwnOrigin reports whether an origin is the server's own: the origin of the request's URL, or
// that of server.url.
func (o *Options) isOwnOrigin(page origin, r *http.Request) bool {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return page.equals(scheme+"://"+r.Host) || o.URL != "" && page.equals(o.urlOrigin())
}

// urlOrigin returns the origin of URL, without its path.
func (o *Options) urlOrigin() string {
	u, err := url.Parse(o.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// origin is a web origin in comparable form.
type origin struct{ scheme, host, port string }

// parseOrigin parses scheme://host[:port] of HTTP or HTTPS. It returns false for all other texts,
// including "null".
func parseOrigin(text string) (origin, bool) {
	scheme, rest, ok := strings.Cut(strings.ToLower(text), "://")
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	host, given, valid := splitHost(rest)
	if !ok || port == "" || !valid {
		return origin{}, false
	}
	if given != "" {
		port = given
	}
	return origin{scheme, host, port}, true
}

// equals reports whether text is the same origin in all its parts.
func (o origin) equals(text string) bool {
	other, ok := parseOrigin(text)
	return ok && o == other
}

// splitHost splits host, host:port, [v6] or [v6]:port. It returns false for all other forms, such
// as [::1 or ::1.
func splitHost(hostport string) (host, port string, ok bool) {
	host = hostport
	if i := strings.LastIndexByte(hostport, ':'); i >= 0 && !strings.HasSuffix(hostport, "]") {
		host, port = hostport[:i], hostport[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
			return "", "", false
		}
	}
	if inner, bracketed := strings.CutPrefix(host, "["); bracketed {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", "", false
		}
		return addr.String(), port, true
	}
	if host == "" || strings.ContainsFunc(host, notInHost) {
		return "", "", false
	}
	return strings.ToLower(host), port, true
}

// notInHost reports whether c cannot be part of a host name or an IPv4 address.
func notInHost(c rune) bool {
	return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_')
}

// checkHost returns an error unless the request's Host is a known name of this server.
// A page whose own name was made to point here (DNS rebinding) sends that name, and in
// all else looks like a request from this machine. A request with a token needs no such
// check, because a page has no token.
func (o *Options) checkHost(r *http.Request) error {
	host, _, ok := splitHost(r.Host)
	switch {
	case ok && (isLoopback(host) || slices.ContainsFunc(o.hostNames(), func(name string) bool { return strings.EqualFold(name, host) })):
		return nil
	case ok && o.Required == Never && isAddress(host):
		return nil // a name can be made to point here, an address cannot
	}
	return forbidden("the request names the host "+strconv.Quote(r.Host)+", which is not a known name of this server",
		"use http://localhost or 127.0.0.1, add the name to server.hosts (or set server.url), or send a token")
}

// hostNames returns the host names of the server in the configuration.
func (o *Options) hostNames() []string {
	names := slices.Clone(o.Hosts)
	if u, err := url.Parse(o.URL); err == nil && u.Hostname() != "" {
		names = append(names, u.Hostname())
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil && host != "" && !isAddress(host) {
		names = append(names, host)
	}
	return names
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

func forbidden(message, hint string) error {
	e := toolroom.Errorf(toolroom.CodeDenied, "%s", message)
	return e.WithHint("%s", hint)
}
