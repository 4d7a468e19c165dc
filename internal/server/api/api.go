// Package api serves a room over HTTP: /api/v1, described by OpenAPI 3.1 that is
// generated from the code, and /healthz, /readyz and /metrics. It turns requests
// into calls and results into responses; the runner does everything in between.
// Start at [New]. Package auth identifies the caller; its middleware must wrap
// the [Server].
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Prefix is the path of the API.
const Prefix = "/api/v1"

// OpenPaths returns the paths of the probes. They need no token because they
// reveal nothing about tools or callers.
func OpenPaths() []string { return []string{"/healthz", "/readyz"} }

// DecisionPaths returns the path prefixes of requests that decide on behalf of a
// person: approvals with their rules, elevations, versions of tools, and what operators change.
func DecisionPaths() []string {
	return []string{Prefix + "/approvals", Prefix + "/policy/elevations", Prefix + "/versions", Prefix + "/releases", Prefix + "/cases", Prefix + "/tokens", Prefix + "/config", Prefix + "/sources", Prefix + "/secrets", Prefix + "/audit"}
}

// Options are the parts of a Server. Runner is required. If another part is
// missing, its operations return the error code unsupported.
type Options struct {
	Runner    *run.Runner
	Receipts  Receipts
	Worker    Worker
	Approvals Approvals
	Artifacts Artifacts
	Sessions  Sessions
	// Releases keeps the versions of tools.
	Releases *release.Service
	// Sources returns the sources and their states.
	Sources func() []Source
	// Explain explains how policy decides about a tool, in any accepted spelling.
	Explain func(ctx context.Context, tool string, who toolroom.Identity, arguments json.RawMessage) (*policy.Explanation, error)
	// Elevator manages elevations.
	Elevator Elevator
	// Owner returns the identity of the caller to whose call an
	// event belongs. If nil, only operators can follow all calls.
	Owner func(*toolroom.Event) toolroom.Identity
	// Metrics is served at /metrics; nil serves no metrics.
	Metrics *Metrics
	Admin   Admin

	Version string
	Log     *slog.Logger
	// KeepAlive is the interval of keep-alive comments on an idle stream; zero
	// means 15 s.
	KeepAlive time.Duration
}

// Receipts reads the recorded receipts.
type Receipts interface {
	Receipt(ctx context.Context, id string) (*toolroom.Receipt, error)
	Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error)
	receipt.Sampler
}

// Worker runs background calls.
type Worker interface {
	// Wake makes the worker look for jobs now.
	Wake()
	// CancelRunning ends a job that runs in this process, and reports whether there was one.
	CancelRunning(id string) bool
}

// Approvals is where people answer questions.
type Approvals interface {
	Get(ctx context.Context, id string) (*toolroom.Approval, error)
	List(ctx context.Context, state toolroom.ApprovalState) ([]*toolroom.Approval, error)
	Answer(ctx context.Context, id string, a toolroom.Answer) (*toolroom.Approval, error)
	Grants(ctx context.Context) ([]*toolroom.Grant, error)
	RemoveGrant(ctx context.Context, id string) error
}

// Server is the handler of the HTTP API. It is safe for concurrent use.
type Server struct {
	o       Options
	api     huma.API
	mux     *patternMux
	running running
}

// patternMux is a mux that knows its patterns.
type patternMux struct {
	*http.ServeMux
	patterns []string
}

// HandleFunc registers a handler. All routes of this package are registered by it.
func (r *patternMux) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	r.patterns = append(r.patterns, pattern)
	r.ServeMux.HandleFunc(pattern, handle)
}

// New returns a Server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.KeepAlive = cmp.Or(o.KeepAlive, 15*time.Second)
	s := &Server{o: o, mux: &patternMux{ServeMux: http.NewServeMux()}}
	s.api = humago.New(s.mux, apiConfig(o.Version))
	s.routes()
	s.routeHealth()
	s.routeDocument()
	s.routeDocs()
	s.mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		if allowed := s.methods(r); len(allowed) > 0 {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			problem.Write(w, problem.New(http.StatusMethodNotAllowed, toolroom.Errorf(toolroom.CodeUnsupported, "%s does not support %s", r.URL.Path, r.Method).
				WithHint("use %s; see %s/openapi.json", strings.Join(allowed, " or "), Prefix)))
			return
		}
		problem.Write(w, toolroom.Errorf(toolroom.CodeNotFound, "there is no %s %s", r.Method, r.URL.Path).
			WithHint("see %s/openapi.json", Prefix))
	})
	return s
}

// methods returns the methods that a request's path has.
func (s *Server) methods(r *http.Request) []string {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != Prefix+"/" {
			allowed = append(allowed, method)
		}
	}
	return allowed
}

// ServeHTTP serves /api/v1, /healthz, /readyz and /metrics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func apiConfig(version string) huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Servers: []*huma.Server{{URL: "/", Description: "this server"}},
			Info:    &huma.Info{Title: "Toolroom", Version: version, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}, Description: "Find, call and audit tools. Errors are application/problem+json with the members of Toolroom's error object; a failed call returns the whole result envelope, with the HTTP status of its error code."},
			Components: &huma.Components{
				Schemas:         schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "created with: toolroom token create NAME; not needed on the host machine itself"}},
			},
			Security: []map[string][]string{{"token": {}}, {}},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{transformErrors},
	}
	// Responses gain members over time, and content has the members of its source.
	c.AllowAdditionalPropertiesByDefault = true
	return c
}

// schemaName returns the name of a type's schema. The types of releases get a prefix, because
// other types have the same names.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.PkgPath() == reflect.TypeFor[release.Release]().PkgPath() {
		return "Tool" + name
	}
	return name
}

// transformErrors turns huma's own errors (invalid parameters) into problems, the
// form of all other errors.
func transformErrors(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	code := toolroom.CodeInvalidArguments
	if m.Status >= http.StatusInternalServerError {
		code = toolroom.CodeInternal
	}
	e := toolroom.Errorf(code, "%s", m.Detail)
	for i, d := range m.Errors {
		if i == 0 {
			e.Message = ""
		} else {
			e.Message += "; "
		}
		e.Message += d.Location + ": " + d.Message
	}
	return problem.New(m.Status, e).Of(auth.RequestID(ctx.Context())), nil
}

// register adds an operation. Errors of its handler are returned as problems.
func register[In, Out any](s *Server, described operation, handle func(context.Context, *In) (*Out, error)) {
	op := huma.Operation(described)
	op.Path = Prefix + op.Path
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "Error",
		Content:     map[string]*huma.MediaType{problem.ContentType: {Schema: s.schema(reflect.TypeFor[problem.Problem]())}},
	}
	if op.Responses["4XX"] == nil {
		op.Responses["4XX"] = &huma.Response{Description: "The request was refused", Content: op.Responses["default"].Content}
	}
	// If huma knew the body, it would read it itself, twice and through float64, with
	// a deadline on the connection that outlives the body and ends calls. So the
	// body is added only afterwards, for the description.
	body := op.RequestBody
	op.RequestBody = nil
	huma.Register(s.api, op, func(ctx context.Context, in *In) (*Out, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
	if body != nil {
		item := s.api.OpenAPI().Paths[op.Path]
		if op.Method == http.MethodPut {
			item.Put.RequestBody = body
		} else {
			item.Post.RequestBody = body
		}
	}
}

// problem converts err to a problem. It logs internal errors with the request's id.
func (s *Server) problem(ctx context.Context, err error) *problem.Problem {
	p := problem.From(err)
	if p.Code == toolroom.CodeInternal {
		s.o.Log.Error("request failed", "request", auth.RequestID(ctx), "error", err)
	}
	return p.Of(auth.RequestID(ctx))
}

func (s *Server) schema(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// routeDocument serves the description of all routes registered before.
func (s *Server) routeDocument() {
	doc := s.api.OpenAPI()
	// huma describes its own error model, which no response uses.
	delete(doc.Components.Schemas.Map(), "ErrorModel")
	delete(doc.Components.Schemas.Map(), "ErrorDetail")
	describe(doc)
	// Few servers are ever asked, so the first request makes the text.
	serve := func(path, mime string, encode func() ([]byte, error)) {
		text := sync.OnceValues(encode)
		s.mux.HandleFunc("GET "+Prefix+path, func(w http.ResponseWriter, _ *http.Request) {
			body, err := text()
			if err != nil { // a programming error in the routes
				panic(err)
			}
			w.Header().Set("Content-Type", mime)
			w.Write(body)
		})
	}
	serve("/openapi.json", "application/openapi+json", doc.MarshalJSON)
	serve("/openapi.yaml", "application/openapi+yaml", doc.YAML)
}

func unsupportedError(reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s", reason)
}
