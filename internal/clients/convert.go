package clients

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/secret"
)

// server is an MCP server with the members of all clients.
type server struct {
	Type    string            `json:"type"`
	Command string            `json:"command" toml:"command"`
	Args    []string          `json:"args" toml:"args"`
	Env     map[string]string `json:"env" toml:"env"`
	EnvFile string            `json:"envFile"`
	Cwd     string            `json:"cwd" toml:"cwd"`
	URL     string            `json:"url" toml:"url"`
	HTTPURL string            `json:"httpUrl"` // Gemini's name of URL
	Headers map[string]string `json:"headers" toml:"http_headers"`

	Description string `json:"description"`
	Disabled    bool   `json:"disabled"`

	// include and exclude are tool names.
	include, exclude       []string
	startTimeout, callTime time.Duration
	// envHeaders maps headers to the variables that hold their values.
	envHeaders map[string]string
	// bearerEnv is the variable that holds the bearer token.
	bearerEnv string
}

// convert converts a server to a source with the given name.
func (r *reader) convert(name string, s server) (Found, error) {
	c := converter{reader: r, found: Found{Name: name}}
	m := &config.MCP{StartTimeout: s.startTimeout}
	switch {
	case s.Command == "" && s.URL == "":
		return Found{}, errors.New("it has neither a command nor a URL")
	case s.Command != "":
		m.Command = c.plainText("the command", s.Command)
		m.Cwd = c.plainText("the working folder", s.Cwd)
		for i, arg := range s.Args {
			m.Args = append(m.Args, c.argument(s.Args[:i], arg))
		}
		m.Env = c.values(s.Env, "the variable ", func(key string) string { return key })
		if s.EnvFile != "" {
			c.warn("the file of variables %s is not read; name what the server needs in env", s.EnvFile)
		}
		if s.URL != "" {
			c.warn("it has a URL too, which is left out")
		}
	default:
		m.URL = c.plainText("the URL", s.URL)
		m.Headers = c.headers(s)
		if s.Type == "sse" {
			c.warn("it speaks the older HTTP+SSE transport; Toolroom speaks streamable HTTP, which many servers offer at another path, often /mcp")
		}
		c.warnOfVariables(m)
		if u, err := url.Parse(m.URL); err == nil && (u.User != nil || hasSecretQuery(u)) {
			c.warn("the URL seems to hold a secret, which toolroom.yaml would show; send it as a header if the server can take one")
		}
	}
	c.found.Source = config.Source{
		MCP: m, Description: s.Description, Disabled: s.Disabled, Timeout: s.callTime,
		Tools: config.Selection{Include: s.include, Exclude: s.exclude},
	}
	if err := config.CheckSource(name, c.found.Source); err != nil {
		return Found{}, err
	}
	return c.found, nil
}

// converter collects the results for one server.
type converter struct {
	*reader
	found Found
}

func (c *converter) warn(format string, args ...any) {
	c.found.Warnings = append(c.found.Warnings, fmt.Sprintf(format, args...))
}

// warnOfVariables warns of variables of the user's environment that a server receives, because the
// file may belong to a project that the user does not know well.
func (c *converter) warnOfVariables(m *config.MCP) {
	var names []string
	for _, value := range m.Headers {
		for _, ref := range secret.References(value) {
			if r, err := secret.ParseRef(ref); err == nil && r.Scope == "" {
				names = append(names, r.Name)
			}
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	to := "a server"
	if u, err := url.Parse(m.URL); err == nil && u.Host != "" {
		to = u.Host
	}
	c.warn("it sends from your environment to %s: %s", to, strings.Join(slices.Compact(names), ", "))
}

func (c *converter) headers(s server) map[string]string {
	headers := c.values(s.Headers, "the header ", strings.ToLower)
	if headers == nil && (len(s.envHeaders) > 0 || s.bearerEnv != "") {
		headers = map[string]string{}
	}
	for key, variable := range s.envHeaders {
		headers[key] = secret.Ref{Name: variable}.String()
	}
	if s.bearerEnv != "" {
		headers["Authorization"] = "Bearer " + secret.Ref{Name: s.bearerEnv}.String()
	}
	return headers
}

// placeholder matches ${VAR}, ${VAR:-default}, ${env:VAR} and ${input:id}. A variable must
// not be followed by a character that could belong to a reference.
var (
	placeholder = pattern.Lazy(`\$\{[^}]*\}`)
	variable    = pattern.Lazy(`\$\{(?:env:)?([A-Za-z_]\w*)(:-[^}]*)?\}([^\w./-]|$)`)
	// bareVariable matches $VAR, which only Gemini replaces.
	bareVariable = pattern.Lazy(`\$([A-Za-z_]\w*)`)
)

// values imports variables or headers. Values that look like secrets become references to
// the secret store.
func (c *converter) values(in map[string]string, what string, key func(string) string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		out[name] = c.value(what+name, name, key(name), c.replaceKnown(in[name]))
	}
	return out
}

func (c *converter) value(what, name, key, value string) string {
	if refs := secret.References(value); len(refs) > 0 { // in a foreign file they are nobody's choice
		return c.leaveToPerson(what, key, "holds "+refs[0])
	}
	if c.client.bareVariables {
		value = bareVariable().ReplaceAllString(value, "$${$1}")
	}
	if text, ok := c.references(what, value); ok {
		return text
	}
	switch {
	case placeholder().MatchString(value):
		return c.leaveToPerson(what, key, "holds "+strings.Join(placeholder().FindAllString(value, -1), " and "))
	case config.LooksSecret(name, value):
		ref := c.ref(key).String()
		if c.found.Secrets == nil {
			c.found.Secrets = map[string]string{}
		}
		c.found.Secrets[ref] = value
		return ref
	default:
		return value
	}
}

// references converts the variables in a value to references. It does not if there are
// none, if other placeholders remain, or if the text around them looks like a secret
// itself.
func (c *converter) references(what, value string) (string, bool) {
	variables := variable().FindAllStringSubmatch(value, -1)
	around := variable().ReplaceAllString(value, "$3")
	text := variable().ReplaceAllString(value, "env://$1$3")
	if len(variables) == 0 || placeholder().MatchString(around) || config.LooksSecret("", around) ||
		len(secret.References(text)) != len(variables) {
		return "", false
	}
	for _, v := range variables {
		if v[2] != "" {
			c.warn("%s loses the default of %s: Toolroom needs the variable to be set", what, v[1])
		}
	}
	return text, true
}

// leaveToPerson returns a reference to a secret that the person must set. While it is missing,
// the error of the secret store says how to set it.
func (c *converter) leaveToPerson(what, key, reason string) string {
	ref := c.ref(key)
	c.warn("%s %s; set the whole value: toolroom secret set %s", what, reason, strings.TrimPrefix(ref.String(), "secret://"))
	return ref.String()
}

// ref returns a reference that no other value of the server uses.
func (c *converter) ref(key string) secret.Ref {
	ref := secret.Ref{Scope: c.found.Name, Name: cleanName(key)}
	base := ref.Name
	for i := 2; c.found.Secrets[ref.String()] != ""; i++ {
		ref.Name = numbered(base, i)
	}
	return ref
}

// plainText imports a value that cannot contain references.
func (c *converter) plainText(what, value string) string {
	value = c.replaceKnown(value)
	if left := placeholder().FindAllString(value, -1); left != nil {
		c.warn("%s holds %s, which Toolroom does not replace: write the value in its place", what, strings.Join(left, " and "))
	}
	return value
}

func (c *converter) argument(before []string, value string) string {
	name, rest, joined := strings.Cut(value, "=")
	if !joined {
		name, rest = "", value
		if n := len(before); n > 0 && strings.HasPrefix(before[n-1], "-") {
			name = before[n-1]
		}
	}
	if !strings.HasPrefix(rest, "-") && !placeholder().MatchString(rest) && config.LooksSecret(name, rest) {
		c.warn("an argument%s seems to hold a secret, which toolroom.yaml would show; give it in env if the server can take it there", inParentheses(name))
	}
	return c.plainText("an argument", value)
}

func inParentheses(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// replaceKnown replaces clients' placeholders for folders.
func (c *converter) replaceKnown(text string) string {
	for name, value := range c.placeholders {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	return text
}

func hasSecretQuery(u *url.URL) bool {
	for name, values := range u.Query() {
		if slices.ContainsFunc(values, func(v string) bool { return config.LooksSecret(name, v) }) {
			return true
		}
	}
	return false
}
