package config

import (
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
)

func (c checker) checkOAuth(key string, s Server, o OAuth, groups map[string][]string) {
	if len(o.Issuers) == 0 {
		c.addProblem(key+".issuers", "no issuer is set", "for example [https://login.example.com]")
	}
	for i, issuer := range o.Issuers {
		c.checkSecureURL(fmt.Sprintf("%s.issuers[%d]", key, i), issuer)
	}
	switch {
	case o.Resource != "":
		c.checkWebURL(key+".resource", o.Resource)
	case s.URL == "":
		c.addProblem(key, "the URL that tokens are issued for is missing", "set server.url, for example https://tools.example.com")
	}
	for i, scope := range o.Required {
		c.checkScope(fmt.Sprintf("%s.required_scopes[%d]", key, i), scope)
	}
	for _, scope := range slices.Sorted(maps.Keys(o.Scopes)) {
		c.checkScope(key+".scopes."+scope, scope)
		c.checkPatterns(key+".scopes."+scope, o.Scopes[scope], groups)
	}
}

func (c checker) checkLogin(key string, s Server, l Login) {
	c.checkSecureURL(key+".issuer", l.Issuer)
	if l.ClientID == "" {
		c.addProblem(key+".client_id", "the client is missing", "register Toolroom at the provider, with the redirect URL <server.url>/login/callback")
	}
	if s.URL == "" {
		c.addProblem(key, "the URL to which the provider redirects is missing", "set server.url, for example https://tools.example.com")
	}
	c.requireReference(key+".client_secret", l.ClientSecret)
	for i, scope := range l.Scopes {
		c.checkScope(fmt.Sprintf("%s.scopes[%d]", key, i), scope)
	}
}

// checkSecureURL requires https, except on this machine: keys that arrive over plain http may be
// forged.
func (c checker) checkSecureURL(key, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		c.addProblem(key, quote(text)+" is not the URL of an authorization server", "for example https://login.example.com")
		return
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && !(u.Scheme == "http" && local) {
		c.addProblem(key, quote(text)+" does not begin with https://", "")
	}
}

// checkScope accepts the characters of RFC 6749 section 3.3.
func (c checker) checkScope(key, scope string) {
	if scope == "" || strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }) {
		c.addProblem(key, quote(scope)+" is not a scope", "for example tools:write")
	}
}
