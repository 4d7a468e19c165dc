package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/approval"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// people are the identities that the tests have tokens for, by token.
var people = map[string]toolroom.Identity{
	"alice": {Subject: "alice"},
	"bob":   {Subject: "bob"},
	"carol": {Subject: "carol", Groups: []string{"approvers"}},
	"olga":  {Subject: "olga", Groups: []string{"operators"}},

	"tess":   {Subject: "tess", Groups: []string{"approvers"}, Environment: "test"},
	"dana":   {Subject: "dana", Environment: "test"},
	"sets":   {Subject: "sue", Groups: []string{"approvers"}, Set: "reading"},
	"reader": {Subject: "rob", Set: "reading"},
}

// bench is the API over a real runner with Go functions, behind auth.
type bench struct {
	t       *testing.T
	funcs   *gofunc.Source
	runner  *run.Runner
	memory  *memory
	metrics *api.Metrics
	url     string
}

// policyFunc decides by the name of a tool.
type policyFunc func(name string) toolroom.Verdict

func (f policyFunc) Decide(_ context.Context, r policy.Request) policy.Decision {
	return policy.Decision{Effect: f(r.Tool.ID.Name), Rule: "the rule of the test"}
}

func newBench(t *testing.T, configure ...func(*api.Options, *run.Options)) *bench {
	t.Helper()
	b := &bench{t: t, funcs: &gofunc.Source{}, memory: newMemory()}
	approvals := approval.New(b.memory, approval.Options{})
	b.metrics = api.NewMetrics(api.MetricsOptions{Approvals: approvals, ReceiptQueue: func() int { return 7 }})
	ro := run.Options{
		Catalog: catalog.New(catalog.Options{}), Receipts: counted{b.memory, b.metrics}, Approvals: approvals, Keys: b.memory, Jobs: b.memory, Owner: "test",
		Policy: policyFunc(func(name string) toolroom.Verdict {
			switch name {
			case "secret":
				return toolroom.VerdictDeny
			case "risky":
				return toolroom.VerdictConfirm
			}
			return toolroom.VerdictAllow
		}),
	}
	ro.Limits.Breaker.Failures = 1000
	ao := api.Options{Receipts: b.memory, Approvals: approvals, Artifacts: newFiles(t.TempDir()), Metrics: b.metrics, Version: "test"}
	for _, f := range configure {
		f(&ao, &ro)
	}
	b.runner = run.New(ro)
	t.Cleanup(b.metrics.Watch(b.runner.Bus))
	worker := run.NewWorker(b.runner, run.WorkerOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); worker.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-stopped })

	ao.Runner, ao.Worker = b.runner, worker
	guard := auth.Middleware(auth.Options{Listen: "127.0.0.1:0", Verify: func(_ context.Context, token string) (toolroom.Identity, error) {
		if who, ok := people[token]; ok {
			return who, nil
		}
		return toolroom.Identity{}, toolroom.Errorf(toolroom.CodeUnauthenticated, "the token is not known")
	}})
	server := httptest.NewUnstartedServer(guard(api.New(ao)))
	server.Config.ConnContext = auth.ConnContext
	server.Start()
	t.Cleanup(server.Close)
	b.url = server.URL

	b.add("echo:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		return &source.Output{Value: req.Arguments}, nil
	})
	return b
}

func (b *bench) add(id string, h gofunc.Handler) {
	b.t.Helper()
	tool := toolroom.Tool{ID: toolroom.MustParseID(id), Source: toolroom.SourceGo, Description: "For the test of " + id, Hidden: strings.HasSuffix(id, ":hidden")}
	b.funcs.Put(gofunc.Func{Tool: tool, Handler: h})
	if err := b.runner.Catalog.Register("go", b.funcs, tool); err != nil {
		b.t.Fatal(err)
	}
}

func nothing(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Value: json.RawMessage("null")}, nil
}

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

// into decodes the body.
func (r reply) into(t *testing.T, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.body), v); err != nil {
		t.Fatalf("the body is not as expected: %v\n%s", err, r.body)
	}
}

// code is the error code of a problem or of a result.
func (r reply) code(t *testing.T) toolroom.Code {
	t.Helper()
	var body struct {
		Code  toolroom.Code   `json:"code"`
		Error *toolroom.Error `json:"error"`
	}
	r.into(t, &body)
	if body.Error != nil {
		return body.Error.Code
	}
	return body.Code
}

// open sends a request as somebody ("" is the local operator); headers come in
// pairs.
func (b *bench) open(ctx context.Context, who, method, path, body string, headers ...string) *http.Response {
	b.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, b.url+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	for pair := range slices.Chunk(headers, 2) {
		req.Header.Set(pair[0], pair[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return res
}

func (b *bench) as(who, method, path, body string, headers ...string) reply {
	b.t.Helper()
	res := b.open(b.t.Context(), who, method, path, body, headers...)
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

func (b *bench) post(path, body string, headers ...string) reply {
	b.t.Helper()
	return b.as("", http.MethodPost, "/api/v1"+path, body, headers...)
}

func (b *bench) get(path string, headers ...string) reply {
	b.t.Helper()
	return b.as("", http.MethodGet, "/api/v1"+path, "", headers...)
}

// events reads server-sent events until the stream ends or stop says so.
func events(t *testing.T, body io.Reader, stop func(toolroom.Event) bool) []toolroom.Event {
	t.Helper()
	var list []toolroom.Event
	lines := bufio.NewScanner(body)
	name := ""
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = rest
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e toolroom.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		if string(e.Kind) != name {
			t.Errorf("an event named %q has the kind %q", name, e.Kind)
		}
		list = append(list, e)
		if stop != nil && stop(e) {
			break
		}
	}
	return list
}

func kinds(list []toolroom.Event) string {
	var names []string
	for _, e := range list {
		names = append(names, string(e.Kind))
	}
	return strings.Join(names, " ")
}
