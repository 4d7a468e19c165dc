// Package httpapi implements a source for HTTP services that the config describes: the
// two forms of a tool server, and any method, path, query, header and body.
package httpapi

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/httpcall"
	"github.com/toolroom/toolroom/internal/source/secretref"
)

// Form is the form in which a service receives calls.
type Form string

// Forms. AgentFlow uses both: its reference describes the first, its code implements the
// second.
const (
	// FormPath posts the arguments to {base_url}/{tool}, or makes the request that the
	// tool describes. It is the default.
	FormPath Form = "path"
	// FormRun posts {"tool", "input"} to {base_url}/tools/run and reads
	// {"tool", "result", "success", "error"}.
	FormRun Form = "run"
)

// Body is the kind of body of a request in FormPath.
type Body string

// Kinds of bodies.
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
// Templates contain arguments as {name}; {{ and }} stand for braces. Each value is
// escaped for its place. If an optional argument is missing, the query value, header
// or body member that uses it is left out.
type Config struct {
	// BaseURL is the URL to which paths are appended.
	BaseURL string `yaml:"base_url" json:"base_url"`
	// Title and Description are for search and for people.
	Title       string `yaml:"title,omitempty" json:"title,omitempty"`
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// Form defaults to path.
	Form Form `yaml:"form,omitempty" json:"form,omitempty"`
	// Headers are sent with each call. They are not templates.
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	// Timeout limits the time of a call. The default is 120 s.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// MaxResponse limits the size of a response in bytes. The default is 16 MiB.
	MaxResponse int64 `yaml:"max_response,omitempty" json:"max_response,omitempty"`
	// RedirectHosts are hosts to which the service may redirect besides its own.
	// They never receive the configured headers.
	RedirectHosts []string `yaml:"redirect_hosts,omitempty" json:"redirect_hosts,omitempty"`
	Tools         []Tool   `yaml:"tools" json:"tools"`
}

// Tool describes one tool of a service.
type Tool struct {
	Name        string `yaml:"name" json:"name"`
	Title       string `yaml:"title,omitempty" json:"title,omitempty"`
	Description string `yaml:"description,omitempty" json:"description,omitempty"`
	// InputSchema defaults to the arguments in the templates.
	InputSchema map[string]any `yaml:"input_schema,omitempty" json:"input_schema,omitempty"`
	// OutputSchema, if set, makes a response that is not JSON an error.
	OutputSchema map[string]any `yaml:"output_schema,omitempty" json:"output_schema,omitempty"`

	// Method defaults to POST, Path to /{tool}.
	Method  string            `yaml:"method,omitempty" json:"method,omitempty"`
	Path    string            `yaml:"path,omitempty" json:"path,omitempty"`
	Query   map[string]string `yaml:"query,omitempty" json:"query,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty" json:"headers,omitempty"`
	Body    Body              `yaml:"body,omitempty" json:"body,omitempty"`
	// BodyTemplate is any JSON value. A string that consists of {name} becomes the
	// argument with its type; other strings contain arguments as text.
	BodyTemplate any `yaml:"body_template,omitempty" json:"body_template,omitempty"`
	// Result is a JSON pointer to the part of the response that is the value.
	Result string `yaml:"result,omitempty" json:"result,omitempty"`
	// Map is an expression (expr-lang.org) that computes the value. Its variable value is
	// the part that Result selects, and args are the arguments of the call.
	Map string `yaml:"map,omitempty" json:"map,omitempty"`

	// Hints default to those of the method. With guarantee keyed, the call's
	// idempotency key is sent in the header Idempotency-Key.
	Hints     Hints              `yaml:"hints,omitempty" json:"hints,omitzero"`
	Guarantee toolroom.Guarantee `yaml:"guarantee,omitempty" json:"guarantee,omitempty"`
	Tags      []string           `yaml:"tags,omitempty" json:"tags,omitempty"`
	// Timeout replaces the source's and limits the time of a call.
	Timeout time.Duration `yaml:"timeout,omitempty" json:"timeout,omitempty"`
	// Sensitive lists JSON pointers of arguments that are never recorded.
	Sensitive []string `yaml:"sensitive,omitempty" json:"sensitive,omitempty"`
}

// Hints are toolroom.Hints in the syntax of the configuration.
type Hints struct {
	ReadOnly    *bool `yaml:"read_only,omitempty" json:"read_only,omitempty"`
	Destructive *bool `yaml:"destructive,omitempty" json:"destructive,omitempty"`
	Idempotent  *bool `yaml:"idempotent,omitempty" json:"idempotent,omitempty"`
	OpenWorld   *bool `yaml:"open_world,omitempty" json:"open_world,omitempty"`
}

// Validate reports every mistake with its key.
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
		p.add("base_url", "it contains a password; put it into headers as a reference secret://scope/name")
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
	if tool.Map != "" {
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

// validateRunTool refuses settings that the form run does not support.
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
