package config

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/secret"
)

var (
	secretName = pattern.Lazy(`(?i)(token|secret|passw|\bpass$|_pass$|passphrase|pwd|credential|cookie|authorization|api[-_]?key|apikey|access[-_]?key|private[-_]?key|[-_]key$|^key$|[-_]pat$|[-_]dsn$|session|bearer)`)
	// notSecret matches names of settings that only mention secrets.
	notSecret = pattern.Lazy(`(?i)(file|path|url|dir|name|type|timeout|limit|max.*tokens|tokens?[-_]?(count|limit)|expiry|ttl)$`)
	// secretValue matches well-known tokens, as their issuers document them for scanners:
	// GitHub, GitLab, Slack, OpenAI and Anthropic, Google, AWS, npm, Stripe, JSON web
	// tokens, private keys and URLs with a password.
	secretValue = pattern.Lazy(`^(?i:bearer|basic|token) \S{6,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}|\bxox[abeoprs]-[\w-]{10,}|\bsk-[\w-]{16,}|\bAIza[\w-]{30,}|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\bnpm_\w{30,}|\b[sr]k_(live|test)_\w{16,}|\beyJ[\w-]{8,}\.[\w-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY|://[^/\s:@]*:[^/\s@]+@`)
	// randomText contains no slash, because paths are not secret.
	randomText = pattern.Lazy(`^[A-Za-z0-9_+=-]{32,}$`)
)

// LooksSecret guesses whether the value of a setting, such as an environment variable or a
// header, is a secret in plain text. A value with a reference to a secret is none. If in
// doubt it is one: that costs only one entry of the store.
func LooksSecret(name, value string) bool {
	switch {
	case value == "" || len(secret.References(value)) > 0:
		return false
	case secretValue().MatchString(value):
		return true
	case notSecret().MatchString(name):
		return false
	case secretName().MatchString(name):
		return true
	default:
		return randomText().MatchString(value) && strings.ContainsAny(value, "0123456789") && entropy(value) > 3.5
	}
}

// entropy returns the Shannon entropy in bits per character: words have less than 3.5 in 32
// characters, random hexadecimal digits about 3.7, base64 more than 4.
func entropy(s string) float64 {
	counts := map[rune]float64{}
	for _, r := range s {
		counts[r]++
	}
	bits := 0.0
	for _, n := range counts {
		p := n / float64(len(s))
		bits -= p * math.Log2(p)
	}
	return bits
}

// PlainSecret is a setting that seems to hold a secret in plain text.
type PlainSecret struct {
	// Key is where it is, such as sources.github.mcp.env.TOKEN.
	Key string
	// Fix is the command that moves it into the secret store, or says how.
	Fix string
}

// PlainSecrets returns the settings that seem to hold a secret in plain text.
func (c *Config) PlainSecrets() []PlainSecret {
	var out []PlainSecret
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		for _, at := range secretPlaces(c.Sources[name]) {
			for _, key := range slices.Sorted(maps.Keys(*at.values)) {
				if isLiftable(key, (*at.values)[key]) {
					out = append(out, PlainSecret{"sources." + name + "." + at.key + "." + key, "toolroom secret lift " + name})
				}
			}
		}
	}
	for _, s := range c.Settings() {
		last := s.Path[len(s.Path)-1]
		if holdsCredential(s.Path, s.Value) && len(secret.References(s.Value)) == 0 && s.Value != "" {
			name := strings.ToLower(CleanRef(last))
			scope := CleanRef(s.Path[min(1, len(s.Path)-1)])
			out = append(out, PlainSecret{s.Key(), "toolroom secret set " + scope + "/" + name + ", and write secret://" + scope + "/" + name})
		}
	}
	return out
}

// holdsCredential reports whether the setting is a credential by its meaning, or one of a
// map of headers or variables that secretPlaces does not have.
func holdsCredential(path []string, value string) bool {
	key := strings.Join(path, ".")
	if path[0] == "sources" && strings.Contains(key, ".http.tools.") && slices.Contains([]string{"headers", "query"}, path[len(path)-2]) {
		return LooksSecret(path[len(path)-1], value)
	}
	if path[0] == "sources" {
		return strings.Contains(key, ".mcp.oauth.") && slices.Contains([]string{"client_secret", "private_key", "token"}, path[len(path)-1])
	}
	if len(path) > 2 && slices.Contains([]string{"env", "headers"}, path[len(path)-2]) {
		return secretName().MatchString(path[len(path)-1]) && !notSecret().MatchString(path[len(path)-1])
	}
	switch {
	case key == "builtin.web.search.key", key == "builtin.storage.secret_key", key == "builtin.storage.session_token",
		key == "builtin.google.client_secret", key == "builtin.media.vision.key", key == "builtin.media.speech.key":
		return true
	case path[0] == "approvals" && path[len(path)-1] == "secret":
		return true
	case path[0] == "secrets" && slices.Contains([]string{"token", "secret_id"}, path[len(path)-1]):
		return true
	}
	return false
}

// secretPlace is a map of a source whose values may refer to secrets.
type secretPlace struct {
	key    string
	values *map[string]string
}

func secretPlaces(s Source) []secretPlace {
	var out []secretPlace
	if m := s.MCP; m != nil {
		out = append(out, secretPlace{"mcp.env", &m.Env}, secretPlace{"mcp.headers", &m.Headers})
	}
	if o := s.OpenAPI; o != nil {
		out = append(out, secretPlace{"openapi.headers", &o.Headers}, secretPlace{"openapi.auth", &o.Auth})
	}
	if g := s.GraphQL; g != nil {
		out = append(out, secretPlace{"graphql.headers", &g.Headers})
	}
	if h := s.HTTP; h != nil {
		out = append(out, secretPlace{"http.headers", &h.Headers})
	}
	if c := s.CLI; c != nil {
		out = append(out, secretPlace{"cli.env", &c.Env})
	}
	return out
}

var scheme = pattern.Lazy(`^(?i)(bearer|basic|token) +(\S.*)$`)

// isLiftable reports whether a value seems to be a secret that the store takes: it refuses
// short ones.
func isLiftable(name, value string) bool {
	if !LooksSecret(name, value) {
		return false
	}
	if parts := scheme().FindStringSubmatch(value); parts != nil {
		value = parts[2]
	}
	return len(value) >= secret.MinRedacted
}

// LiftSecrets replaces what seems to be a secret in plain text in the variables, headers and
// credentials of the source name by references, and returns the values by reference.
func LiftSecrets(name string, s Source) (Source, map[string]string) {
	lifted := map[string]string{}
	s = s.clone()
	for _, at := range secretPlaces(s) {
		changed := maps.Clone(*at.values)
		for _, key := range slices.Sorted(maps.Keys(*at.values)) {
			value := changed[key]
			if !isLiftable(key, value) {
				continue
			}
			before := ""
			if parts := scheme().FindStringSubmatch(value); parts != nil { // the scheme is no secret
				before, value = parts[1]+" ", parts[2]
			}
			ref := secret.Ref{Scope: CleanRef(name), Name: CleanRef(key)}
			for base, n := ref.Name, 2; lifted[ref.String()] != ""; n++ { // names may differ in what a reference lacks
				ref.Name = base + "-" + strconv.Itoa(n)
			}
			lifted[ref.String()] = value
			changed[key] = before + ref.String()
		}
		*at.values = changed
	}
	return s, lifted
}

// CleanRef returns text as a part of a reference.
func CleanRef(text string) string {
	clean := strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '-' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, text)
	if clean = strings.TrimLeft(clean, "-."); clean == "" {
		return "value"
	}
	return clean[:min(len(clean), 120)]
}
