// Package httpsource makes tools of HTTP services that are described by hand:
// the two forms of a tool server, and any method, path, query, header and body.
package httpsource

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/internal/trusted"
)

// Form is how a service takes calls.
type Form string

// The forms. Both are in use by AgentFlow: its reference describes the first,
// its code speaks the second.
const (
	// FormPath posts the arguments to {base_url}/{tool}, or does what the tool
	// says. It is the default.
	FormPath Form = "path"
	// FormRun posts {"tool", "input"} to {base_url}/tools/run and reads
	// {"tool", "result", "success"}.
	FormRun Form = "run"
)

// Body is what a request of FormPath carries.
type Body string

// The bodies.
const (
	// BodyArgs sends the arguments that no template uses, as a JSON object. It
	// is the default, except for GET, HEAD, DELETE and OPTIONS.
	BodyArgs Body = "args"
	// BodyNone sends no body; the arguments that no template uses go into the
	// query. It is the default for GET, HEAD, DELETE and OPTIONS.
	BodyNone Body = "none"
	// BodyTemplate sends body_template.
	BodyTemplate Body = "template"
)

// Config describes a service and its tools.
//
// Header, query and body values may hold references secret://scope/name and
// env://NAME, which are resolved for each call.
//
// Templates take arguments as {name}; {{ and }} stand for braces. A value is
// escaped for the place where it goes. An optional argument that is not given
// leaves out the query value, header or body member that uses it.
type Config struct {
	// BaseURL is the address that paths are appended to.
	BaseURL string `yaml:"base_url" json:"base_url"`
	// Title and Description are for search and for people.
	Title       string `yaml:"title,omitempty" json:"title,omitempty"`
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Form defaults to path.
	Form Form `yaml:"form,omitempty" json:"form,omitempty"`
	// Headers are sent with each call. They take no arguments.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Timeout of a call; default 120 s.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// MaxResponse is the largest answer accepted, in bytes; default 16 MiB.
	MaxResponse int64 `yaml:"max_response,omitempty" json:"max_response,omitempty"`
	// RedirectHosts are hosts that the service may redirect to beside its own.
	// They never receive the configured headers.
	RedirectHosts []string `yaml:"redirect_hosts,omitempty" json:"redirect_hosts,omitempty"`
	Tools         []Tool   `yaml:"tools" json:"tools"`
}

// Tool describes one tool of a service.
type Tool struct {
	Name        string `yaml:"name" json:"name"`
	Title       string `yaml:"title,omitempty" json:"title,omitempty"`
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// InputSchema defaults to the arguments that the templates use.
	InputSchema map[string]any `yaml:"input_schema,omitempty" json:"input_schema,omitempty"`
	// OutputSchema makes an answer that is not JSON an error.
	OutputSchema map[string]any `yaml:"output_schema,omitempty" json:"output_schema,omitempty"`

	// Method defaults to POST, Path to /{tool}.
	Method  string            `yaml:"method,omitempty" json:"method,omitempty"`
	Path    string            `yaml:"path,omitempty" json:"path,omitempty"`
	Query   map[string]string `yaml:"query,omitempty" json:"query,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Body    Body              `yaml:"body,omitempty" json:"body,omitempty"`
	// BodyTemplate is any JSON value. A string that is just {name} becomes the
	// argument with its type; other strings take arguments as text.
	BodyTemplate any `yaml:"body_template,omitempty" json:"body_template,omitempty"`
	// Result is a JSON pointer to the part of the answer that is the value.
	Result string `yaml:"result,omitempty" json:"result,omitempty"`
	// Map makes the value from what Result picks, in its variable value; args
	// are the arguments of the call.
	Map trusted.Program `yaml:"map,omitempty" json:"map,omitzero"`

	// Hints default to what the method says. Guarantee keyed sends the
	// idempotency key of the call in the header Idempotency-Key.
	Hints     Hints              `yaml:"hints,omitempty" json:"hints,omitzero"`
	Guarantee toolroom.Guarantee `yaml:"guarantee,omitempty" json:"guarantee,omitempty"`
	Tags      []string           `yaml:"tags,omitempty" json:"tags,omitempty"`
	// Timeout replaces the source's and is the ceiling of a call's run time.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// Sensitive lists JSON pointers of arguments that are never recorded.
	Sensitive []string `yaml:"sensitive,omitempty" json:"sensitive,omitempty"`
}

// Hints are toolroom.Hints as they are written in configuration.
type Hints struct {
	ReadOnly    *bool `yaml:"read_only,omitempty" json:"read_only,omitempty"`
	Destructive *bool `yaml:"destructive,omitempty" json:"destructive,omitempty"`
	Idempotent  *bool `yaml:"idempotent,omitempty" json:"idempotent,omitempty"`
	OpenWorld   *bool `yaml:"open_world,omitempty" json:"open_world,omitempty"`
}

// Validate reports every mistake, each with the key that it is under.
func (c *Config) Validate() error {
	var p problems
	c.validateService(&p)
	seen := map[string]bool{}
	for i := range c.Tools {
		tool := &c.Tools[i]
		at := fmt.Sprintf("tools[%d]", i)
		if seen[tool.Name] {
			p.add(at+".name", "%q is the name of an earlier tool", tool.Name)
		}
		seen[tool.Name] = true
		c.validateTool(&p, at, tool)
	}
	return errors.Join(p...)
}

func (c *Config) validateService(p *problems) {
	if base, err := url.Parse(c.BaseURL); err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		p.add("base_url", "%q is not an address; write http://host:port/path or https://…", c.BaseURL)
	} else if base.User != nil {
		p.add("base_url", "it holds a password; put it into headers as a reference secret://scope/name")
	} else if base.RawQuery != "" || base.Fragment != "" {
		p.add("base_url", "it has a query or fragment; put the query into query of the tools")
	}
	switch c.Form {
	case "", FormPath, FormRun:
	default:
		p.add("form", "%q is not a form; write path or run", c.Form)
	}
	if c.Timeout < 0 {
		p.add("timeout", "it is negative")
	}
	if c.MaxResponse < 0 {
		p.add("max_response", "it is negative")
	}
	for name, value := range c.Headers {
		p.addError("headers."+name, httpcall.CheckHeader(name, value))
	}
}

func (c *Config) validateTool(p *problems, at string, tool *Tool) {
	p.addError(at+".name", (toolroom.ID{Namespace: "x", Name: tool.Name}).Validate())
	switch tool.Guarantee {
	case "", toolroom.GuaranteeSafe, toolroom.GuaranteeKeyed, toolroom.GuaranteeNever:
	default:
		p.add(at+".guarantee", "%q is not a guarantee; write safe, keyed or never", tool.Guarantee)
	}
	if tool.Timeout < 0 {
		p.add(at+".timeout", "it is negative")
	}
	if tool.Result != "" && tool.Result[0] != '/' {
		p.add(at+".result", "%q is not a JSON pointer; write /name/of/part", tool.Result)
	}
	if !tool.Map.IsZero() {
		_, err := tool.mapping()
		p.addError(at+".map", err)
	}
	for name, value := range tool.Headers {
		p.addError(at+".headers."+name, httpcall.CheckHeader(name, value))
	}
	if c.Form == FormRun {
		c.validateRunTool(p, at, tool)
		return
	}
	if secretref.In(tool.Path) {
		p.add(at+".path", "a path cannot hold a secret, because servers log paths; use a header")
	}
	if !httpcall.IsToken(tool.method()) {
		p.add(at+".method", "%q is not a method", tool.Method)
	}
	switch tool.Body {
	case "", BodyArgs, BodyNone:
		if tool.Body != "" && tool.BodyTemplate != nil {
			p.add(at+".body_template", "it is not used with body: %s", tool.Body)
		}
	case BodyTemplate:
		if tool.BodyTemplate == nil {
			p.add(at+".body", "template needs body_template")
		}
	default:
		p.add(at+".body", "%q is not a body; write args, none or template", tool.Body)
	}
	_, err := newRoute(tool)
	p.addError(at, err)
}

// validateRunTool refuses what the form run has no place for.
func (c *Config) validateRunTool(p *problems, at string, tool *Tool) {
	for key, used := range map[string]bool{
		"method":        tool.Method != "",
		"path":          tool.Path != "",
		"query":         tool.Query != nil,
		"headers":       tool.Headers != nil,
		"body":          tool.Body != "",
		"body_template": tool.BodyTemplate != nil,
	} {
		if used {
			p.add(at+"."+key, "it is not used with form: run")
		}
	}
}

type problems []error

func (p *problems) add(key, format string, args ...any) {
	*p = append(*p, fmt.Errorf(key+": "+format, args...))
}

func (p *problems) addError(key string, err error) {
	if err != nil {
		*p = append(*p, fmt.Errorf("%s: %w", key, err))
	}
}
