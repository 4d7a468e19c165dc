package app

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/artifact"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/cli"
	"github.com/toolroom/toolroom/internal/source/graphql"
	"github.com/toolroom/toolroom/internal/source/httpapi"
	"github.com/toolroom/toolroom/internal/source/mcp"
	"github.com/toolroom/toolroom/internal/source/openapi"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// CheckConfig returns an error if this build does not support a part of a valid config.
func CheckConfig(c *config.Config) error {
	_, err := storePath("", c.Store.URL)
	return err
}

// build creates a source from its section of the config. It starts nothing.
func (a *App) build(name string, s config.Source, c *config.Config) (source.Source, error) {
	src, err := a.buildKind(name, s, c)
	if err != nil {
		return nil, err
	}
	made := &selectedSource{
		predictingSource: predictingSource{Source: src}, include: s.Tools.Include, exclude: s.Tools.Exclude, timeout: s.Timeout, plain: s.Names == "plain",
		task: toolroom.TaskSupport(s.Tasks), output: toolroom.OutputCheck(s.Output), effects: s.Effects,
	}
	if s.MCP != nil {
		made.dir = a.workingFolder(a.serverFolder(s.MCP.Cwd))
	}
	return made, nil
}

func (a *App) buildKind(name string, s config.Source, c *config.Config) (source.Source, error) {
	guard, err := egress.New(c.Egress.Policy(s.Egress))
	if err != nil {
		return nil, err
	}
	environ, enforces := a.environ, a.enforcesRules
	plain, under := a.programStarter(c.NetworkOf(s), guard), a.starterWithRules(a.jail(c.NetworkOf(s), guard))
	start := func(_ context.Context, s proc.Spec) (*proc.Process, error) { return plain(s) }
	ruled := func(_ context.Context, s proc.Spec, rules []toolroom.Effect) (*proc.Process, error) {
		return under(s, rules)
	}
	var sandboxed *sandboxStarter
	if s.Sandbox != nil {
		sandboxed = &sandboxStarter{app: a, name: name, source: s, egress: c.Egress}
		environ, enforces, start, ruled = a.plainEnviron, nil, sandboxed.start, sandboxed.startWithRules
	}
	switch {
	case s.MCP != nil:
		auth, shared := a.authorisation(name, s.MCP, guard)
		o := mcp.Config{
			Namespace:    name,
			Command:      s.MCP.Command,
			Args:         s.MCP.Args,
			Env:          environ(s.MCP.Env),
			Dir:          a.serverFolder(s.MCP.Cwd),
			Owner:        a.owner,
			Start:        start,
			URL:          s.MCP.URL,
			Header:       a.header(s.MCP.Headers),
			Egress:       guard,
			Auth:         auth,
			Shared:       shared,
			StartTimeout: s.MCP.StartTimeout,
			Idle:         s.MCP.Idle,
			Log:          a.log,
			Version:      a.o.Version,
		}
		made := mcp.New(o)
		if sandboxed == nil {
			return made, nil
		}
		return &sandboxedServer{
			sandboxedSource: &sandboxedSource{predictingSource{made, sandboxed.workingFolder(o.Dir)}, sandboxed}, Library: made, withoutRules: made,
			enforced: func(ctx context.Context, rules []toolroom.Effect) (enforcement, error) {
				return sandboxed.enforcement(ctx, proc.Spec{Command: o.Command, Dir: o.Dir}, rules)
			},
			newServer: func(rules []toolroom.Effect) server {
				under := o
				under.Start = func(ctx context.Context, s proc.Spec) (*proc.Process, error) {
					return sandboxed.startWithRules(ctx, s, rules)
				}
				under.Idle = cmp.Or(o.Idle, serverIdleTime)
				return mcp.New(under)
			},
		}, nil
	case s.CLI != nil:
		place := ""
		if sandboxed != nil {
			place = sandboxed.workingFolder(a.resolvePath(s.CLI.Cwd))
		}
		made := cli.New(cli.Config{
			Namespace:   name,
			Command:     s.CLI.Command,
			Args:        s.CLI.Args,
			Dir:         a.resolvePath(s.CLI.Cwd),
			RunDir:      place,
			Env:         environ(s.CLI.Env),
			Description: s.Description,
			Subcommands: s.CLI.Tools,
			SkipHelp:    name == a.openingProgram,
			Allow:       s.CLI.Allow,
			Deny:        s.CLI.Deny,
			Timeout:     s.Timeout,
			Policy:      cli.Policy{Mode: cli.Mode(c.CLI.Mode), Allow: c.CLI.Allow},
			Owner:       a.owner,
			Start:       ruled,
			Sandboxed:   s.Sandbox != nil,
			Enforces:    enforces,
		})
		if sandboxed == nil {
			return made, nil
		}
		return &sandboxedSource{predictingSource{made, place}, sandboxed}, nil
	case s.GraphQL != nil:
		return graphql.New(name, graphql.Config{
			URL:           s.GraphQL.URL,
			Headers:       s.GraphQL.Headers,
			Include:       s.GraphQL.Include,
			Exclude:       s.GraphQL.Exclude,
			Depth:         s.GraphQL.Depth,
			Description:   s.Description,
			Timeout:       s.Timeout,
			MaxResponse:   s.GraphQL.MaxResponse,
			RedirectHosts: s.GraphQL.RedirectHosts,
		}, graphql.Options{Resolve: a.resolver.Resolve, Egress: guard})
	case s.HTTP != nil:
		return httpapi.New(name, httpConfig(s), httpapi.Options{Resolve: a.resolver.Resolve, Egress: guard})
	default:
		return openapi.New(name, openapi.Config{
			Spec:        a.specPath(s.OpenAPI.Spec),
			BaseURL:     s.OpenAPI.BaseURL,
			Auth:        s.OpenAPI.Auth,
			Headers:     s.OpenAPI.Headers,
			Include:     s.OpenAPI.Include,
			Exclude:     s.OpenAPI.Exclude,
			Description: s.Description,
			Timeout:     s.Timeout,

			MaxResponse:   s.OpenAPI.MaxResponse,
			RedirectHosts: s.OpenAPI.RedirectHosts,
		}, openapi.Options{Resolve: a.resolver.Resolve, Egress: guard, Verify: a.o.Verify})
	}
}

// maxDepth is the maximum depth of Toolrooms that start one another.
const maxDepth = 3

// environ returns a function that makes the environment of a child process: a few variables
// of this process and those of the config. It resolves secrets again at each start.
func (a *App) environ(extra map[string]string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		if depth := proc.Depth(a.o.Environ); depth >= maxDepth {
			return nil, toolroom.Errorf(toolroom.CodeBudgetExceeded, "Toolroom starts no more programs, because it was started by %d nested Toolrooms", depth).
				WithHint("a source starts Toolroom with a config that contains the same source: use another config there")
		}
		values, err := a.resolver.ExpandAll(forAllCallers(ctx), extra)
		if err != nil {
			return nil, err
		}
		return proc.Environ(a.o.Environ, values), nil
	}
}

// plainEnviron is like environ, but without variables of this process. It is for programs
// in a sandbox.
func (a *App) plainEnviron(extra map[string]string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		values, err := a.resolver.ExpandAll(forAllCallers(ctx), extra)
		if err != nil {
			return nil, err
		}
		env := make([]string, 0, len(values))
		for _, name := range slices.Sorted(maps.Keys(values)) {
			env = append(env, name+"="+values[name])
		}
		return env, nil
	}
}

// forAllCallers returns a context for starting processes and connections that serve all
// callers. They must not use secret values of the caller that happens to be the first.
func forAllCallers(ctx context.Context) context.Context { return secretref.WithCaller(ctx, "") }

func (a *App) header(configured map[string]string) func(context.Context) (http.Header, error) {
	if len(configured) == 0 {
		return nil
	}
	return func(ctx context.Context) (http.Header, error) {
		values, err := a.resolver.ExpandAll(forAllCallers(ctx), configured)
		if err != nil {
			return nil, err
		}
		header := http.Header{}
		for name, value := range values {
			header.Set(name, value)
		}
		return header, nil
	}
}

// resolvePath resolves a relative path against the folder of the config file, and so does
// specPath.
func (a *App) resolvePath(path string) string {
	if path == "" || filepath.IsAbs(path) || a.o.ConfigFile == "" {
		return path
	}
	return filepath.Join(filepath.Dir(a.o.ConfigFile), path)
}

// serverFolder returns the working folder of an MCP server on stdio. The default is the
// folder of the config file, so that the server does not depend on where Toolroom is
// started.
func (a *App) serverFolder(cwd string) string {
	if cwd == "" && a.o.ConfigFile != "" {
		return filepath.Dir(a.o.ConfigFile)
	}
	return a.resolvePath(cwd)
}

// workingFolder returns the working folder of a program as an absolute path.
func (a *App) workingFolder(cwd string) string {
	dir, err := filepath.Abs(a.resolvePath(cwd))
	if err != nil {
		return ""
	}
	return dir
}

func (a *App) userHome() string {
	home, _ := a.lookupEnv("HOME")
	return home
}

func (a *App) specPath(spec string) string {
	if _, err := os.Stat(a.resolvePath(spec)); err == nil {
		return a.resolvePath(spec)
	}
	return spec // a URL, or a file; if it is missing, the source reports that
}

func httpConfig(s config.Source) httpapi.Config {
	c := httpapi.Config{
		BaseURL:     s.HTTP.BaseURL,
		Description: s.Description,
		Form:        httpapi.Form(s.HTTP.Form),
		Headers:     s.HTTP.Headers,
		Timeout:     s.Timeout,

		MaxResponse:   s.HTTP.MaxResponse,
		RedirectHosts: s.HTTP.RedirectHosts,
	}
	for _, t := range s.HTTP.Tools {
		c.Tools = append(c.Tools, httpTool(t))
	}
	return c
}

func httpTool(t config.HTTPTool) httpapi.Tool {
	tool := httpapi.Tool{
		Name:         t.Name,
		Title:        t.Title,
		Description:  t.Description,
		InputSchema:  schemaTree(t.InputSchema),
		OutputSchema: schemaTree(t.OutputSchema),
		Method:       t.Method,
		Path:         t.Path,
		Query:        t.Query,
		Headers:      t.Headers,
		Result:       t.Result,
		Map:          t.Map,
		Tags:         t.Tags,
		Sensitive:    t.Sensitive,
		Hints:        httpapi.Hints(t.Hints),
		Guarantee:    t.Guarantee,
		Timeout:      t.Timeout,
	}
	// A body is args, none, or a template.
	var word string
	switch {
	case len(t.Body) == 0:
	case json.Unmarshal(t.Body, &word) == nil && (word == string(httpapi.BodyArgs) || word == string(httpapi.BodyNone)):
		tool.Body = httpapi.Body(word)
	default:
		tool.Body, tool.BodyTemplate = httpapi.BodyTemplate, json.RawMessage(t.Body)
	}
	return tool
}

// schemaTree decodes a schema. The config has validated it.
func schemaTree(schema config.JSON) map[string]any {
	tree, err := jsonx.Decode(schema, jsonx.Limits{})
	if err != nil {
		return nil
	}
	object, _ := tree.(map[string]any)
	return object
}

// sourceDigest returns a hash of a source's configuration.
func sourceDigest(s config.Source, c *config.Config) string {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	// All are plain data, so encoding cannot fail.
	_ = enc.Encode(s)
	if s.CLI != nil {
		_ = enc.Encode(c.CLI)
	}
	_ = enc.Encode(c.Egress)
	sum := sha256.Sum256(text.Bytes())
	return hex.EncodeToString(sum[:])
}

// documentVersion returns a text that changes with a source's document, if that is a file.
func (a *App) documentVersion(s config.Source) string {
	if s.OpenAPI == nil {
		return ""
	}
	info, err := os.Stat(a.specPath(s.OpenAPI.Spec))
	if err != nil {
		return "" // an address, or the source reports it
	}
	return fmt.Sprintf(" %d %d", info.Size(), info.ModTime().UnixNano())
}

func (a *App) listCacheFor(name, digest string) *listCache {
	if a.isTemp {
		return nil
	}
	return &listCache{path: filepath.Join(a.home, "lists", name+".json"), digest: digest, now: time.Now}
}

func artifactLimits(q config.Quota) artifact.Limits {
	return artifact.Limits{Entries: q.Entries, Total: q.TotalBytes, Each: q.EntryBytes, TTL: q.TTL}
}

func runLimits(c *config.Config) run.Limits {
	l := c.Limits
	return run.Limits{
		Timeout:      l.Timeout,
		MaxTimeout:   l.MaxTimeout,
		ApprovalWait: l.ApprovalWait,
		OutputBytes:  l.OutputBytes,
		InputBytes:   l.InputBytes,
		KeyTTL:       l.KeyTTL,
		Retry:        run.RetryLimits(l.Retry),
		Breaker:      run.BreakerLimits(l.Breaker),
		Rate:         run.RateLimits(l.Rate),
		Cache:        run.CacheLimits{Tools: l.Cache.Tools, Groups: c.Tools.Groups, TTL: l.Cache.TTL, Entries: l.Cache.Entries},
		Concurrency:  l.Concurrency,
	}
}
