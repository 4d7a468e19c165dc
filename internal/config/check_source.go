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

func (c checker) checkSource(key, name string, s Source, programs map[string]DriverProgram) {
	c.checkNamespace(key, name)
	switch kinds := count(s.MCP != nil, s.OpenAPI != nil, s.GraphQL != nil, s.HTTP != nil, s.CLI != nil); {
	case kinds == 0:
		c.addProblem(key, "one of mcp, openapi, graphql, http and cli is missing", `for example {mcp: {command: mcp-server-filesystem, args: ["."]}}`)
	case kinds > 1:
		c.addProblem(key, "it has more than one of mcp, openapi, graphql, http and cli", "make a source of each")
	}
	c.requireOneOfOrEmpty(key+".names", s.Names, "scoped", "plain")
	c.requireOneOfOrEmpty(key+".tasks", s.Tasks, "optional", "required")
	c.requireOneOfOrEmpty(key+".output", s.Output, OutputChecks()...)
	c.checkSourceTrust(key, s)
	c.checkGlobs(key+".tools.include", s.Tools.Include)
	c.checkGlobs(key+".tools.exclude", s.Tools.Exclude)
	c.checkEgress(key+".egress", s.Egress)
	c.rejectIfSet(key+".egress.network", s.Egress.Network != "" && s.CLI == nil && (s.MCP == nil || s.MCP.Command == ""), "a program, cli or mcp.command,")
	c.checkSandbox(key+".sandbox", s, programs)
	c.checkEffects(key+".effects", s.Effects)
	if s.MCP != nil {
		c.checkMCP(key+".mcp", s.MCP)
	}
	if s.OpenAPI != nil {
		c.checkOpenAPI(key+".openapi", s.OpenAPI)
	}
	if s.GraphQL != nil {
		c.checkGraphQL(key+".graphql", s.GraphQL)
	}
	if s.HTTP != nil {
		c.checkHTTP(key+".http", s.HTTP)
	}
	if s.CLI != nil {
		c.checkCLI(key+".cli", s.CLI)
	}
}

func (c checker) checkMCP(key string, m *MCP) {
	switch {
	case m.Command == "" && m.URL == "":
		c.addProblem(key, "it has neither command nor url", `for example {command: mcp-server-filesystem, args: ["."]} or {url: "https://example.com/mcp"}`)
	case m.Command != "" && m.URL != "":
		c.addProblem(key, "it has both command and url", "make a source of each")
	case m.URL != "":
		c.checkWebURL(key+".url", m.URL)
		c.rejectIfSet(key+".args", len(m.Args) > 0, "command")
		c.rejectIfSet(key+".env", len(m.Env) > 0, "command")
		c.rejectIfSet(key+".cwd", m.Cwd != "", "command")
		c.rejectIfSet(key+".idle", m.Idle != 0, "command")
	default:
		c.rejectIfSet(key+".headers", len(m.Headers) > 0, "url")
		c.rejectIfSet(key+".oauth", m.OAuth != nil, "url")
	}
	if m.OAuth != nil {
		c.checkOAuthClient(key+".oauth", m.OAuth)
	}
	c.rejectReferences(key+".args", m.Args...)
	c.rejectReferences(key+".url", m.URL)
	c.checkEnv(key+".env", m.Env)
	c.checkHeaders(key+".headers", m.Headers)
}

// rejectIfSet records a mistake if a key is set that only goes with another one.
func (c checker) rejectIfSet(key string, set bool, other string) {
	if set {
		c.addProblem(key, "it is only for "+other, "remove it")
	}
}

func (c checker) checkOpenAPI(key string, o *OpenAPI) {
	if o.Spec == "" {
		c.addProblem(key, "spec is missing", "for example {spec: petstore.json}")
	}
	if o.BaseURL != "" {
		c.checkWebURL(key+".base_url", o.BaseURL)
	}
	c.checkReferences(key+".auth", o.Auth)
	c.checkHeaders(key+".headers", o.Headers)
	c.checkResponses(key, o.Responses)
}

func (c checker) checkGraphQL(key string, g *GraphQL) {
	if g.URL == "" {
		c.addProblem(key, "url is missing", `for example {url: "https://api.example.com/graphql"}`)
	} else {
		c.checkWebURL(key+".url", g.URL)
	}
	if g.Depth > 10 {
		c.addProblem(key+".depth", "it is not from 1 to 10", "leave it out for 2")
	}
	c.checkGlobs(key+".include", g.Include)
	c.checkGlobs(key+".exclude", g.Exclude)
	c.checkHeaders(key+".headers", g.Headers)
	c.checkResponses(key, g.Responses)
}

func (c checker) checkResponses(key string, r Responses) {
	for i, host := range r.RedirectHosts {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			c.addProblem(fmt.Sprintf("%s.redirect_hosts[%d]", key, i), quote(host)+" is not a host", "for example files.example.com or files.example.com:8443")
		}
	}
}

func (c checker) checkHTTP(key string, h *HTTP) {
	if h.BaseURL == "" {
		c.addProblem(key, "base_url is missing", `for example {base_url: "https://api.example.com/tools", tools: [{name: forecast}]}`)
	} else {
		c.checkWebURL(key+".base_url", h.BaseURL)
	}
	c.requireOneOfOrEmpty(key+".form", h.Form, "path", "run")
	c.checkHeaders(key+".headers", h.Headers)
	c.checkResponses(key, h.Responses)
	if len(h.Tools) == 0 {
		c.addProblem(key, "it has no tools", "for example tools: [{name: forecast, input_schema: {type: object}}]")
	}
	seen := map[string]int{}
	for i, t := range h.Tools {
		at := fmt.Sprintf("%s.tools[%d]", key, i)
		if first, ok := seen[t.Name]; ok && t.Name != "" {
			c.addProblem(at+".name", fmt.Sprintf("%s is the name of tools[%d] too", quote(t.Name), first), "")
		}
		seen[t.Name] = i
		c.checkHTTPTool(at, t)
	}
}

func (c checker) checkHTTPTool(key string, t HTTPTool) {
	if t.Name == "" {
		c.addProblem(key, "name is missing", "for example {name: forecast}")
	} else {
		c.checkNamespace(key+".name", t.Name)
	}
	c.checkSchema(key+".input_schema", t.InputSchema, (*schema.Schema).CheckArguments)
	c.checkSchema(key+".output_schema", t.OutputSchema, func(*schema.Schema) error { return nil })
	c.requireOneOfOrEmpty(key+".method", t.Method, http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodHead)
	if t.Path != "" && !strings.HasPrefix(t.Path, "/") {
		c.addProblem(key+".path", "a path begins with /", "write "+quote("/"+t.Path))
	}
	c.checkReferences(key+".query", t.Query)
	c.checkHeaders(key+".headers", t.Headers)
	c.requireOneOfOrEmpty(key+".guarantee", string(t.Guarantee), string(toolroom.GuaranteeSafe), string(toolroom.GuaranteeKeyed), string(toolroom.GuaranteeNever))
	if t.Result != "" && !strings.HasPrefix(t.Result, "/") {
		c.addProblem(key+".result", quote(t.Result)+" is not a JSON pointer", "for example /data/items")
	}
	if t.Map != "" {
		if _, err := expression.Compile(t.Map, expression.Any, "value", "args"); err != nil {
			c.addProblem(key+".map", "the expression cannot be used: "+err.Error(), "for example map(value.items, .name)")
		}
	}
	for i, pointer := range t.Sensitive {
		if !strings.HasPrefix(pointer, "/") {
			c.addProblem(fmt.Sprintf("%s.sensitive[%d]", key, i), quote(pointer)+" is not a JSON pointer", "for example /password")
		}
	}
}

// checkSchema checks only the outer form; the catalog compiles schemas.
func (c checker) checkSchema(key string, text JSON, also func(*schema.Schema) error) {
	var object map[string]json.RawMessage
	if text == nil {
		return
	}
	if json.Unmarshal(text, &object) != nil {
		c.addProblem(key, "a schema is an object", "for example {type: object}")
		return
	}
	compiled, err := schema.Compile(text, schema.Limits{})
	if err == nil {
		err = also(compiled)
	}
	if err != nil {
		c.addProblem(key, "the schema cannot be used: "+err.Error(), "")
	}
}

func (c checker) checkCLI(key string, s *CLISource) {
	if s.Command == "" {
		c.addProblem(key, "command is missing", "for example {command: git}")
	}
	c.rejectReferences(key+".args", s.Args...)
	c.checkEnv(key+".env", s.Env)
	for i, tool := range s.Tools {
		words := strings.Fields(tool)
		if len(words) == 0 || slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "-") }) {
			c.addProblem(fmt.Sprintf("%s.tools[%d]", key, i), quote(tool)+" is not a sub-command", `for example status or "remote add"`)
		}
	}
}

// checkGlobs checks patterns of tool names in one source.
func (c checker) checkGlobs(key string, globs []string) {
	for i, glob := range globs {
		if (toolroom.ID{Namespace: "n", Name: strings.ReplaceAll(glob, "*", "x")}).Validate() != nil {
			c.addProblem(fmt.Sprintf("%s[%d]", key, i), quote(glob)+" is not a pattern of names: it has characters besides A-Z a-z 0-9 _ . - *", "for example create_*")
		}
	}
}

// OutputChecks returns the possible values of [Source.Output].
func OutputChecks() []string {
	return []string{string(toolroom.OutputStrict), string(toolroom.OutputWarn), string(toolroom.OutputOff)}
}
