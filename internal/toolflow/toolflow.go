// Package toolflow takes over from ToolFlow, a server of Python functions. [Read] reads its
// tools from its SQLite file, a MySQL dump or its HTTP API, and [Import] uploads their
// versions. [Handler] serves the routes and fields of a ToolFlow server, so that its web page
// and its MCP bridge work unchanged; identity, policy and receipts are those of the other
// surfaces.
package toolflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/release"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// Prefix is the path below which the routes are.
const Prefix = "/compat/toolflow"

// surface is the name of this surface in receipts.
const surface = "toolflow"

// namespace is that of imported tools, and of tools whose ids have no other.
const namespace = "fn:"

// Receipts reads the recorded receipts.
type Receipts interface {
	Receipt(ctx context.Context, id string) (*toolroom.Receipt, error)
	Receipts(ctx context.Context, q toolroom.ReceiptQuery) ([]*toolroom.Receipt, error)
	receipt.Sampler
}

// Options are what the handler needs.
type Options struct {
	Runner   *run.Runner
	Releases *release.Service
	Receipts Receipts
	// Wake makes a worker look for background calls now.
	Wake   func()
	Config func() *config.Config
	// Environment returns the environment of a request's calls.
	Environment func(context.Context) string
}

type server struct{ Options }

// Handler returns the handler of all routes.
func Handler(o Options) http.Handler {
	s := &server{o}
	mux := http.NewServeMux()
	for pattern, methods := range map[string]map[string]handle{
		"/mcp/":                            {http.MethodPost: s.mcp},
		"/mcp":                             {http.MethodPost: s.mcp},
		"/api/tasks/pop":                   {http.MethodPost: operatorsOnly(s.popTask)},
		"/api/tasks/{id}/report":           {http.MethodPost: operatorsOnly(s.reportTask)},
		"/api/admin/tools":                 {http.MethodGet: operatorsOnly(s.tools), http.MethodPost: operatorsOnly(s.create)},
		"/api/admin/tools/{tool}":          {http.MethodGet: operatorsOnly(s.getTool), http.MethodPatch: operatorsOnly(s.update)},
		"/api/admin/executions":            {http.MethodGet: operatorsOnly(s.executions)},
		"/api/admin/config":                {http.MethodGet: operatorsOnly(s.config), http.MethodPut: operatorsOnly(s.setConfig)},
		"/api/admin/metrics/overview":      {http.MethodGet: operatorsOnly(s.overview)},
		"/api/admin/metrics/timeseries":    {http.MethodGet: operatorsOnly(s.timeseries)},
		"/api/admin/executions/{id}":       {http.MethodGet: operatorsOnly(s.execution)},
		"/api/admin/tools/{tool}/versions": {http.MethodGet: operatorsOnly(s.versions), http.MethodPost: operatorsOnly(s.push)},
		"/api/admin/tools/{tool}/versions/{version}/status": {http.MethodPatch: operatorsOnly(s.setStatus)},
		"/api/admin/tools/{tool}/release":                   {http.MethodPost: operatorsOnly(s.release)},
		"/api/admin/tools/{tool}/rollback":                  {http.MethodPost: operatorsOnly(s.rollback)},
		"/api/admin/tools/{tool}/run-test":                  {http.MethodPost: operatorsOnly(s.runTest)},
	} {
		mux.Handle(Prefix+pattern, s.route(methods))
	}
	return mux
}

// handle answers a request with a status and a body, or with an error.
type handle func(r *http.Request, who toolroom.Identity) (int, any, error)

// route calls the handle of the request's method. The page may be served elsewhere; which
// origins may call is decided before.
func (s *server) route(methods map[string]handle) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Add("Vary", "Origin")
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, OPTIONS")
			w.Header().Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
			w.WriteHeader(http.StatusOK)
			return
		}
		h, ok := methods[r.Method]
		if !ok {
			if strings.HasPrefix(r.URL.Path, Prefix+"/mcp") {
				reply(w, http.StatusMethodNotAllowed, map[string]any{"error": map[string]any{"code": -32600, "message": "Method not allowed"}})
				return
			}
			reply(w, http.StatusMethodNotAllowed, map[string]any{})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		status, body, err := h(r, auth.Identity(r.Context()))
		if err != nil {
			status, body = failure(err)
		}
		reply(w, status, body)
	})
}

// maxBody bounds the body of a request.
const maxBody = 8 << 20

// operatorsOnly lets operators pass only.
func operatorsOnly(next handle) handle {
	return func(r *http.Request, who toolroom.Identity) (int, any, error) {
		if !auth.IsOperator(who) {
			return 0, nil, toolroom.Errorf(toolroom.CodeDenied, "only an operator may do this: use a token of the group %s", auth.Operators)
		}
		return next(r, who)
	}
}

// httpError is an error with a status and a message in ToolFlow's words.
type httpError struct {
	status  int
	message string
}

func (e *httpError) Error() string { return e.message }

func newHTTPError(status int, message string) error { return &httpError{status, message} }

func failure(err error) (int, any) {
	status, message := http.StatusInternalServerError, err.Error()
	if known := (*httpError)(nil); errors.As(err, &known) {
		status = known.status
	} else if e := (*toolroom.Error)(nil); errors.As(err, &e) {
		if status = e.Code.Info().HTTPStatus; status == http.StatusUnprocessableEntity {
			status = http.StatusBadRequest // ToolFlow has no other
		}
		if e.Hint != "" {
			message += ": " + e.Hint
		}
	}
	return status, map[string]any{"error": message}
}

func reply(w http.ResponseWriter, status int, body any) {
	text, err := jsonx.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"error": "the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may have gone
}

// read decodes the body of a request. An empty one is an empty object.
func read(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return newHTTPError(http.StatusRequestEntityTooLarge, "the request body is too large")
	}
	if len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return newHTTPError(http.StatusBadRequest, wrong.Field+" must be "+typeNames[wrong.Type.Kind().String()])
		}
		return newHTTPError(http.StatusBadRequest, "Invalid JSON")
	}
	return nil
}

var typeNames = map[string]string{"int": "int", "string": "string", "map": "object", "struct": "object", "slice": "array", "bool": "boolean", "ptr": "object"}

// fullID returns the id of a tool here.
func fullID(id string) string {
	if strings.Contains(id, ":") {
		return id
	}
	return namespace + id
}

// shortID returns the id of a tool as ToolFlow has it.
func shortID(id string) string { return strings.TrimPrefix(id, namespace) }

// tool returns the tool that a request names.
func (s *server) tool(r *http.Request) (*toolState, error) {
	all, err := s.allTools(r.Context())
	if err != nil {
		return nil, err
	}
	id := fullID(r.PathValue("tool"))
	if i := slices.IndexFunc(all, func(t toolState) bool { return t.id == id }); i >= 0 {
		return &all[i], nil
	}
	return nil, newHTTPError(http.StatusNotFound, "tool not found")
}

// popTask has no task for an executor: Toolroom runs them itself.
func (s *server) popTask(*http.Request, toolroom.Identity) (int, any, error) {
	return http.StatusOK, map[string]any{"task": nil}, nil
}

func (s *server) reportTask(*http.Request, toolroom.Identity) (int, any, error) {
	return 0, nil, newHTTPError(http.StatusNotFound, "Task not found")
}

// config returns the settings that Toolroom has of those of ToolFlow.
func (s *server) config(*http.Request, toolroom.Identity) (int, any, error) {
	return http.StatusOK, map[string]any{"config": s.settings()}, nil
}

func (s *server) settings() map[string]any {
	c := s.Config()
	port := 7070
	if _, text, err := net.SplitHostPort(c.Server.Listen); err == nil {
		if n, err := strconv.Atoi(text); err == nil {
			port = n
		}
	}
	return map[string]any{
		"mcp":          map[string]any{"django_port": port, "bridge_sse_port": 8001},
		"server":       map[string]any{"url": cmp.Or(c.Server.URL, "http://127.0.0.1:"+strconv.Itoa(port)) + "/compat/toolflow", "poll_interval": 2},
		"worker":       map[string]any{"pools": []any{}},
		"tool_version": map[string]any{"active_conflict_policy": c.Releases.Conflict, "require_test_success_before_release": *c.Releases.Gates.Cases},
		"sandbox":      map[string]any{"execution_timeout": 10, "allowed_modules": []any{"*"}}, // the page saves no empty field
	}
}

// setConfig accepts the settings as they are. Toolroom's are changed in its config file.
func (s *server) setConfig(r *http.Request, _ toolroom.Identity) (int, any, error) {
	var in struct {
		ToolVersion struct {
			Policy string `json:"active_conflict_policy"`
			Guard  *bool  `json:"require_test_success_before_release"`
		} `json:"tool_version"`
	}
	if err := read(r, &in); err != nil {
		return 0, nil, err
	}
	c := s.Config()
	switch policy := strings.ToLower(in.ToolVersion.Policy); {
	case !slices.Contains([]string{"", "deprecated", "draft"}, policy):
		return 0, nil, newHTTPError(http.StatusBadRequest, "active_conflict_policy must be deprecated or draft")
	case in.ToolVersion.Guard == nil:
		return 0, nil, newHTTPError(http.StatusBadRequest, "require_test_success_before_release must be boolean")
	case policy != "" && policy != c.Releases.Conflict:
		return 0, nil, newHTTPError(http.StatusConflict, "set releases.conflict to "+policy+" in toolroom.yaml")
	case *in.ToolVersion.Guard != *c.Releases.Gates.Cases:
		return 0, nil, newHTTPError(http.StatusConflict, "set releases.gates.cases in toolroom.yaml")
	}
	return http.StatusOK, map[string]any{"config": s.settings()}, nil
}
