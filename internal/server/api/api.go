// Package api serves a room over HTTP: /api/v1, described by OpenAPI 3.1 that is
// generated from the code, and /healthz, /readyz and /metrics. It turns requests
// into calls and results into answers; everything between is the runner's.
// [New] comes first. Who calls is found out by package auth, which must stand
// in front.
package api

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Prefix is where the API is.
const Prefix = "/api/v1"

// OpenPaths are the probes. They need no token: they say nothing of tools or
// callers.
func OpenPaths() []string { return []string{"/healthz", "/readyz"} }

// Options are the parts of a Server. Runner is required; what another part
// serves is answered with unsupported when the part is missing.
type Options struct {
	Runner    *run.Runner
	Receipts  Receipts
	Worker    Worker
	Desk      Desk
	Artifacts Artifacts
	Sessions  Sessions
	// Sources lists the sources and how they are.
	Sources func() []Source
	// Explain tells how policy decides about a tool, in any accepted spelling.
	Explain func(ctx context.Context, tool string, who toolroom.Identity, arguments json.RawMessage) (*policy.Explanation, error)
	// Elevator changes who may call sensitive tools.
	Elevator Elevator
	// Owner is the [toolroom.Identity.Key] of the caller whose call an event
	// belongs to. Without it only operators can follow all calls.
	Owner func(*toolroom.Event) string
	// Metrics are served at /metrics; nil serves none.
	Metrics *Metrics

	Version string
	Log     *slog.Logger
	// KeepAlive is how often a silent stream shows that it lives; zero is 15 s.
	KeepAlive time.Duration
}

// Receipts reads what the runner has recorded.
type Receipts interface {
	Receipt(ctx context.Context, id string) (*receipt.Receipt, error)
	Receipts(ctx context.Context, q receipt.Query) ([]*receipt.Receipt, error)
}

// Worker runs asynchronous calls.
type Worker interface {
	// Wake makes it look for work now.
	Wake()
	// Cancel ends a job that runs in this process, and reports whether one did.
	Cancel(id string) bool
}

// Desk is where people answer questions.
type Desk interface {
	Get(ctx context.Context, id string) (*approval.Approval, error)
	List(ctx context.Context, state approval.State) ([]*approval.Approval, error)
	Answer(ctx context.Context, id string, a approval.Answer) (*approval.Approval, error)
	Grants(ctx context.Context) ([]*approval.Grant, error)
	RemoveGrant(ctx context.Context, id string) error
}

// Server is the HTTP API. It serves any number of requests at once.
type Server struct {
	o       Options
	api     huma.API
	mux     *http.ServeMux
	running running
}

// New makes a server.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = 15 * time.Second
	}
	s := &Server{o: o, mux: http.NewServeMux()}
	s.api = humago.New(s.mux, config(o.Version))
	s.routeTools()
	s.routeCalls()
	s.routeExecute()
	s.routeReceipts()
	s.routeRuns()
	s.routeEvents()
	s.routeApprovals()
	s.routeApprovalEvents()
	s.routeArtifacts()
	s.routeSessions()
	s.routeStubs()
	s.routeSources()
	s.routeElevations()
	s.routeApprovalRules()
	s.routeHealth()
	s.routeDocument()
	s.mux.HandleFunc(Prefix+"/", func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, toolroom.Errorf(toolroom.CodeNotFound, "there is no %s %s", r.Method, r.URL.Path).
			WithHint("see %s/openapi.json", Prefix))
	})
	return s
}

// ServeHTTP serves /api/v1, /healthz, /readyz and /metrics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func config(version string) huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", schemaName)
	c := huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Toolroom", Version: version, Description: "Find, call and audit tools. Errors are application/problem+json with the members of Toolroom's error object; a failed call is answered with the whole result envelope under the status of its error code."},
			Components: &huma.Components{
				Schemas:         schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer", Description: "made by: toolroom token create NAME; not needed on the machine itself"}},
			},
			Security: []map[string][]string{{"token": {}}, {}},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{transformErrors},
	}
	// Answers gain members over time, and content has those of its source.
	c.AllowAdditionalPropertiesByDefault = true
	return c
}

// schemaName tells the step of a policy from the step of a chain.
func schemaName(t reflect.Type, hint string) string {
	name := huma.DefaultSchemaNamer(t, hint)
	if t == reflect.TypeFor[policy.Step]() {
		return "Policy" + name
	}
	return name
}

// transformErrors gives what huma itself refuses (parameters that do not fit)
// the form of all other errors.
func transformErrors(_ huma.Context, _ string, v any) (any, error) {
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
	return problem.New(m.Status, e), nil
}

// register adds an operation. Errors of its handler are answered as problems.
func register[In, Out any](s *Server, op huma.Operation, handle func(context.Context, *In) (*Out, error)) {
	op.Path = Prefix + op.Path
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{
		Description: "Error",
		Content:     map[string]*huma.MediaType{problem.ContentType: {Schema: s.schema(reflect.TypeFor[problem.Problem]())}},
	}
	// A body that huma knows of it reads itself, twice over and through float64,
	// with a deadline on the connection that outlives the body and ends calls.
	// So it hears of bodies only afterwards, for the description.
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
		s.api.OpenAPI().Paths[op.Path].Post.RequestBody = body
	}
}

// problem is err as an answer. What went wrong inside is logged, with the
// request's name.
func (s *Server) problem(ctx context.Context, err error) *problem.Problem {
	p := problem.From(err)
	if p.Code == toolroom.CodeInternal {
		s.o.Log.Error("a request failed", "request", auth.RequestID(ctx), "error", err)
	}
	return p
}

func (s *Server) schema(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// routeDocument serves the description of all routes registered before.
func (s *Server) routeDocument() {
	doc := s.api.OpenAPI()
	// huma describes its own error model, which no answer has.
	delete(doc.Components.Schemas.Map(), "ErrorModel")
	delete(doc.Components.Schemas.Map(), "ErrorDetail")
	serve := func(path, mime string, encode func() ([]byte, error)) {
		body, err := encode()
		if err != nil { // a mistake in the routes, as those that huma panics about
			panic(err)
		}
		s.mux.HandleFunc("GET "+Prefix+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mime)
			w.Write(body)
		})
	}
	serve("/openapi.json", "application/openapi+json", doc.MarshalJSON)
	serve("/openapi.yaml", "application/openapi+yaml", doc.YAML)
}

func unsupported(reason string) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeUnsupported, "%s", reason)
}
