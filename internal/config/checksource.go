package config

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/expression"
	"github.com/toolroom/toolroom/internal/schema"
)

func (c check) source(key, name string, s Source) {
	c.namespace(key, name)
	switch kinds := count(s.MCP != nil, s.OpenAPI != nil, s.GraphQL != nil, s.HTTP != nil, s.CLI != nil); {
	case kinds == 0:
		c.problem(key, "one of mcp, openapi, graphql, http and cli is missing", `for example {mcp: {command: mcp-server-filesystem, args: ["."]}}`)
	case kinds > 1:
		c.problem(key, "it has more than one of mcp, openapi, graphql, http and cli", "make a source of each")
	}
	c.optional(key+".names", s.Names, "scoped", "plain")
	c.optional(key+".tasks", s.Tasks, "optional", "required")
	c.optional(key+".output", s.Output, OutputChecks()...)
	c.sourceTrust(key, s)
	c.globs(key+".tools.include", s.Tools.Include)
	c.globs(key+".tools.exclude", s.Tools.Exclude)
	c.egress(key+".egress", s.Egress)
	c.goesWith(key+".egress.network", s.Egress.Network != "" && s.CLI == nil && (s.MCP == nil || s.MCP.Command == ""), "a program, cli or mcp.command,")
	c.sandbox(key+".sandbox", s)
	c.effects(key+".effects", s.Effects)
	if s.MCP != nil {
		c.mcp(key+".mcp", s.MCP)
	}
	if s.OpenAPI != nil {
		c.openAPI(key+".openapi", s.OpenAPI)
	}
	if s.GraphQL != nil {
		c.graphQL(key+".graphql", s.GraphQL)
	}
	if s.HTTP != nil {
		c.http(key+".http", s.HTTP)
	}
	if s.CLI != nil {
		c.cli(key+".cli", s.CLI)
	}
}

func (c check) mcp(key string, m *MCP) {
	switch {
	case m.Command == "" && m.URL == "":
		c.problem(key, "it has neither command nor url", `for example {command: mcp-server-filesystem, args: ["."]} or {url: "https://example.com/mcp"}`)
	case m.Command != "" && m.URL != "":
		c.problem(key, "it has both command and url", "make a source of each")
	case m.URL != "":
		c.webURL(key+".url", m.URL)
		c.goesWith(key+".args", len(m.Args) > 0, "command")
		c.goesWith(key+".env", len(m.Env) > 0, "command")
		c.goesWith(key+".cwd", m.Cwd != "", "command")
		c.goesWith(key+".idle", m.Idle != 0, "command")
	default:
		c.goesWith(key+".headers", len(m.Headers) > 0, "url")
		c.goesWith(key+".oauth", m.OAuth != nil, "url")
	}
	if m.OAuth != nil {
		c.oauthClient(key+".oauth", m.OAuth)
	}
	c.plain(key+".args", m.Args...)
	c.plain(key+".url", m.URL)
	c.env(key+".env", m.Env)
	c.headers(key+".headers", m.Headers)
}

func (c check) goesWith(key string, set bool, other string) {
	if set {
		c.problem(key, "it is only for "+other, "remove it")
	}
}

func (c check) openAPI(key string, o *OpenAPI) {
	if o.Spec == "" {
		c.problem(key, "spec is missing", "for example {spec: petstore.json}")
	}
	if o.BaseURL != "" {
		c.webURL(key+".base_url", o.BaseURL)
	}
	c.references(key+".auth", o.Auth)
	c.headers(key+".headers", o.Headers)
	c.responses(key, o.Responses)
}

func (c check) graphQL(key string, g *GraphQL) {
	if g.URL == "" {
		c.problem(key, "url is missing", `for example {url: "https://api.example.com/graphql"}`)
	} else {
		c.webURL(key+".url", g.URL)
	}
	if g.Depth > 10 {
		c.problem(key+".depth", "it is not from 1 to 10", "leave it out for 2")
	}
	c.globs(key+".include", g.Include)
	c.globs(key+".exclude", g.Exclude)
	c.headers(key+".headers", g.Headers)
	c.responses(key, g.Responses)
}

func (c check) responses(key string, r Responses) {
	for i, host := range r.RedirectHosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			c.problem(fmt.Sprintf("%s.redirect_hosts[%d]", key, i), quote(host)+" is not a host", "for example files.example.com or files.example.com:8443")
		}
	}
}

func (c check) http(key string, h *HTTP) {
	if h.BaseURL == "" {
		c.problem(key, "base_url is missing", `for example {base_url: "https://api.example.com/tools", tools: [{name: forecast}]}`)
	} else {
		c.webURL(key+".base_url", h.BaseURL)
	}
	c.optional(key+".form", h.Form, "path", "run")
	c.headers(key+".headers", h.Headers)
	c.responses(key, h.Responses)
	if len(h.Tools) == 0 {
		c.problem(key, "it has no tools", "for example tools: [{name: forecast, input_schema: {type: object}}]")
	}
	seen := map[string]int{}
	for i, t := range h.Tools {
		at := fmt.Sprintf("%s.tools[%d]", key, i)
		if first, ok := seen[t.Name]; ok && t.Name != "" {
			c.problem(at+".name", fmt.Sprintf("%s is the name of tools[%d] too", quote(t.Name), first), "")
		}
		seen[t.Name] = i
		c.httpTool(at, t)
	}
}

func (c check) httpTool(key string, t HTTPTool) {
	if t.Name == "" {
		c.problem(key, "name is missing", "for example {name: forecast}")
	} else {
		c.namespace(key+".name", t.Name)
	}
	c.schema(key+".input_schema", t.InputSchema, (*schema.Schema).CheckArguments)
	c.schema(key+".output_schema", t.OutputSchema, func(*schema.Schema) error { return nil })
	c.optional(key+".method", t.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead)
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") {
		c.problem(key+".path", "a path begins with /", "write "+quote("/"+t.Path))
	}
	c.references(key+".query", t.Query)
	c.headers(key+".headers", t.Headers)
	c.optional(key+".guarantee", string(t.Guarantee), string(toolroom.GuaranteeSafe), string(toolroom.GuaranteeKeyed), string(toolroom.GuaranteeNever))
	if t.Result != "" && !strings.HasPrefix(t.Result, "/") {
		c.problem(key+".result", quote(t.Result)+" is not a JSON pointer", "for example /data/items")
	}
	if t.Map != "" {
		if _, err := expression.Compile(t.Map, expression.Any, "value", "args"); err != nil {
			c.problem(key+".map", "the expression cannot be used: "+err.Error(), "for example map(value.items, .name)")
		}
	}
	for i, pointer := range t.Sensitive {
		if !strings.HasPrefix(pointer, "/") {
			c.problem(fmt.Sprintf("%s.sensitive[%d]", key, i), quote(pointer)+" is not a JSON pointer", "for example /password")
		}
	}
}

// schema checks only the outer form; the catalog compiles schemas.
func (c check) schema(key string, text JSON, also func(*schema.Schema) error) {
	var object map[string]json.RawMessage
	if text == nil {
		return
	}
	if json.Unmarshal(text, &object) != nil {
		c.problem(key, "a schema is an object", "for example {type: object}")
		return
	}
	compiled, err := schema.Compile(text, schema.Limits{})
	if err == nil {
		err = also(compiled)
	}
	if err != nil {
		c.problem(key, "the schema cannot be used: "+err.Error(), "")
	}
}

func (c check) cli(key string, s *CLISource) {
	if s.Command == "" {
		c.problem(key, "command is missing", "for example {command: git}")
	}
	c.plain(key+".args", s.Args...)
	c.env(key+".env", s.Env)
	for i, tool := range s.Tools {
		words := strings.Fields(tool)
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }) {
			c.problem(fmt.Sprintf("%s.tools[%d]", key, i), quote(tool)+" is not a sub-command", `for example status or "remote add"`)
		}
	}
}

// globs checks patterns of tool names in one source.
func (c check) globs(key string, globs []string) {
	for i, glob := range globs {
		if (toolroom.ID{Namespace: "n", Name: strings.ReplaceAll(glob, "*", "x")}).Validate() != nil {
			c.problem(fmt.Sprintf("%s[%d]", key, i), quote(glob)+" is not a pattern of names: it has characters besides A-Z a-z 0-9 _ . - *", "for example create_*")
		}
	}
}

// OutputChecks returns the possible values of [Source.Output].
func OutputChecks() []string {
	return []string{string(toolroom.OutputStrict), string(toolroom.OutputWarn), string(toolroom.OutputOff)}
}
