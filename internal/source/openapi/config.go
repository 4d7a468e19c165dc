// Package openapi implements a source for the operations of an OpenAPI 3.0 or 3.1
// document, or of a Swagger 2.0 document, which is converted first. [Source] is the entry
// point. The file import.go converts a document to operations, and request.go converts a
// call to a request.
//
// A [Set] is a JSON or YAML document with the files next to it that it refers to, read
// into trees of [Node] with positions. Size, depth, number of values and the length of
// chains of references are limited.
package openapi

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// Config names the document and says how to reach its service.
//
// Header and auth values may hold references secret://scope/name and
// env://NAME, which are resolved for each call.
type Config struct {
	// Spec is a file or an http(s) URL, JSON or YAML.
	Spec string `yaml:"spec" json:"spec"`
	// Description is for search and people. The default is the document's.
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// BaseURL replaces the servers of the document.
	BaseURL string `yaml:"base_url,omitempty" json:"base_url,omitempty"`
	// Auth holds credentials by the name of the security scheme: the key, the
	// bearer token, or user:password.
	Auth map[string]string `yaml:"auth,omitempty" json:"auth,omitempty"`
	// Headers are sent with each call.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Include and Exclude select operations by operationId, by "GET /path" or
	// by "tag:name". An asterisk matches any characters. An empty Include selects
	// all. Exclude takes precedence.
	Include []string `yaml:"include,omitempty" json:"include,omitempty"`
	Exclude []string `yaml:"exclude,omitempty" json:"exclude,omitempty"`
	// Timeout limits the time of a call. The default is 120 s.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// MaxResponse limits the size of a response in bytes. The default is 16 MiB.
	MaxResponse int64 `yaml:"max_response,omitempty" json:"max_response,omitempty"`
	// RedirectHosts are hosts to which the service may redirect besides its own.
	// They never receive credentials.
	RedirectHosts []string `yaml:"redirect_hosts,omitempty" json:"redirect_hosts,omitempty"`
}

// Options are the dependencies of a source.
type Options struct {
	// Resolve returns the secrets to which the configuration refers.
	Resolve secretref.Resolver
	// Egress guards the connections. Services named in the configuration are permitted
	// in addition.
	Egress *egress.Guard
	// Transport, if set, sends the requests in place of connections through Egress.
	Transport http.RoundTripper
	// Verify, if not nil, must accept the content of a document that is a file.
	Verify func(path string, text []byte) error
}

// Validate reports every mistake with its key. It does not read the document.
func (c *Config) Validate() error {
	var problems []error
	add := func(key, format string, args ...any) {
		problems = append(problems, fmt.Errorf(key+": "+format, args...))
	}
	if c.Spec == "" {
		add("spec", "it is missing; give a file or an address")
	}
	if c.BaseURL != "" {
		if _, err := parseServer(c.BaseURL); err != nil {
			add("base_url", "%w", err)
		}
	}
	for name, value := range c.Headers {
		if err := httpcall.CheckHeader(name, value); err != nil {
			add("headers."+name, "%w", err)
		}
	}
	for name, value := range c.Auth {
		if value == "" {
			add("auth."+name, "it is empty; set a reference such as secret://scope/name")
		}
	}
	if c.Timeout < 0 {
		add("timeout", "it is negative")
	}
	if c.MaxResponse < 0 {
		add("max_response", "it is negative")
	}
	return errors.Join(problems...)
}

// isURL reports whether Spec is a URL and not a file.
func (c *Config) isURL() bool {
	return strings.HasPrefix(c.Spec, "http://") || strings.HasPrefix(c.Spec, "https://")
}

// parseServer parses the URL of a service.
func parseServer(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%q is not an address; write http://host:port/path or https://…", address)
	case u.User != nil:
		return nil, errors.New("the address contains a password; put it into auth as a reference secret://scope/name")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q has a query or fragment, and an operation's path cannot follow that", address)
	}
	return u, nil
}

// selects reports whether one of the names is included and none excluded.
func (c *Config) selects(names []string) bool {
	included := len(c.Include) == 0 || matchesAny(c.Include, names)
	return included && !matchesAny(c.Exclude, names)
}

func matchesAny(patterns, names []string) bool {
	for _, pattern := range patterns {
		for _, name := range names {
			if matches(pattern, name) {
				return true
			}
		}
	}
	return false
}

// matches reports whether name matches pattern, in which * stands for any characters.
func matches(pattern, name string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	name, ok := strings.CutPrefix(name, first)
	if !ok || !wild {
		return ok && name == ""
	}
	parts := strings.Split(rest, "*")
	last := parts[len(parts)-1]
	for _, part := range parts[:len(parts)-1] {
		_, after, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = after
	}
	return strings.HasSuffix(name, last)
}
