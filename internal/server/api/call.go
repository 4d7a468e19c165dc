package api

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
	"github.com/toolroom/toolroom/internal/server/problem"
)

// Limits of one request.
const (
	maxBatch          = 100
	maxParallel       = 50
	maxIdempotencyKey = 256
)

// surface is the name of this surface in receipts.
const surface = "http"

// CallRequest is the body of a call.
type CallRequest struct {
	Arguments json.RawMessage `json:"arguments,omitempty" doc:"a JSON object; {} if omitted"`
	TimeoutMS int64           `json:"timeout_ms,omitempty" minimum:"0" doc:"timeout in milliseconds (default 30,000), capped by the tool's maximum"`
	Session   string          `json:"session,omitempty"`
	MaxOutput int             `json:"max_output,omitempty" doc:"maximum size of the result in bytes (default 51,200); negative means no limit"`
	NoWait    bool            `json:"no_wait,omitempty" doc:"return at once if a person must approve the call"`
}

// NamedCallRequest is the body of a call that names its tool.
type NamedCallRequest struct {
	Tool string `json:"tool" doc:"name of the tool, in any accepted spelling"`
	CallRequest
}

// BatchRequest is the body of a batch.
type BatchRequest struct {
	Calls    []BatchCall `json:"calls" maxItems:"100"`
	Parallel int         `json:"parallel,omitempty" minimum:"0" maximum:"50" doc:"maximum number of calls at a time (default 10)"`
}

// BatchCall is one call of a batch.
type BatchCall struct {
	NamedCallRequest
	IdempotencyKey string `json:"idempotency_key,omitempty" maxLength:"256"`
}

// BatchResponse holds the results in the order of the calls.
type BatchResponse struct {
	Results []*toolroom.Result `json:"results"`
}

// ChainRequest is the body of a chain.
type ChainRequest struct {
	Steps   []toolroom.Step `json:"steps" maxItems:"100"`
	Session string          `json:"session,omitempty"`
}

// Accepted acknowledges a background call, which is durable by then.
type Accepted struct {
	ID    string            `json:"id"`
	State toolroom.JobState `json:"state" enum:"queued,running,waiting,done"`
}

// Delivery selects how the caller receives the result.
type Delivery struct {
	Exchange
	Key    string `header:"Idempotency-Key" doc:"a repeated call with the same key returns the first result"`
	Stream bool   `query:"stream" doc:"respond with events; Accept: text/event-stream does the same"`
	Async  bool   `query:"async" doc:"respond 202 at once and run the call in the background; Prefer: respond-async does the same"`
	Prefer string `header:"Prefer"`
}

type callInput struct {
	ID string `path:"id" doc:"name of the tool, in any accepted spelling; write a slash as %2F"`
	Delivery
}

func (s *Server) callTool(ctx context.Context, in *callInput) (*raw, error) {
	body, err := readJSON[CallRequest](&in.Exchange)
	if err != nil {
		return nil, err
	}
	return s.deliver(ctx, &in.Delivery, NamedCallRequest{Tool: in.ID, CallRequest: body})
}

func (s *Server) callNamed(ctx context.Context, in *Delivery) (*raw, error) {
	body, err := readJSON[NamedCallRequest](&in.Exchange)
	if err != nil {
		return nil, err
	}
	return s.deliver(ctx, in, body)
}

// deliver makes the call and returns its result as the caller has selected.
func (s *Server) deliver(ctx context.Context, d *Delivery, body NamedCallRequest) (*raw, error) {
	call, err := body.call(auth.Identity(ctx), d.Key)
	if err != nil {
		return nil, err
	}
	call.Environment = auth.Environment(ctx)
	switch {
	case d.Async || prefersAsync(d.Prefer):
		return s.submit(ctx, d, call)
	case d.Stream || d.wants(eventStream):
		return &raw{Body: func(huma.Context) { s.streamCall(ctx, d, call) }}, nil
	default:
		result := s.call(ctx, call)
		if result.Error != nil {
			d.retryAfter(result.Error)
		}
		return d.answer(statusOf(result.Error), result), nil
	}
}

// call runs one call. It can be cancelled by its id.
func (s *Server) call(ctx context.Context, call toolroom.Call) *toolroom.Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leave := func() {}
	defer func() { leave() }()
	return s.o.Runner.Run(run.WithSink(ctx, func(e toolroom.Event) {
		if e.Kind == toolroom.EventCalled {
			leave = s.running.add(e.Call, call.Identity, cancel)
		}
	}), call)
}

func (s *Server) submit(ctx context.Context, d *Delivery, call toolroom.Call) (*raw, error) {
	if s.o.Worker == nil {
		return nil, unsupportedError("this server does not run background calls")
	}
	job, err := s.o.Runner.Submit(ctx, call)
	if err != nil {
		return nil, err
	}
	s.o.Worker.Wake()
	d.w.Header().Set("Location", Prefix+"/calls/"+job.ID)
	if prefersAsync(d.Prefer) {
		d.w.Header().Set("Preference-Applied", "respond-async")
	}
	return d.answer(http.StatusAccepted, Accepted{ID: job.ID, State: job.State}), nil
}

func (s *Server) chain(ctx context.Context, in *Exchange) (*raw, error) {
	body, err := readJSON[ChainRequest](in)
	if err != nil {
		return nil, err
	}
	as := toolroom.Call{Identity: auth.Identity(ctx), Session: body.Session, Surface: surface, Environment: auth.Environment(ctx)}
	result := s.o.Runner.Chain(ctx, as, body.Steps)
	if result.Error != nil {
		in.retryAfter(result.Error)
	}
	return in.answer(statusOf(result.Error), result), nil
}

func (s *Server) batch(ctx context.Context, in *Exchange) (*raw, error) {
	body, err := readJSON[BatchRequest](in)
	if err != nil {
		return nil, err
	}
	if len(body.Calls) > maxBatch || body.Parallel < 0 || body.Parallel > maxParallel {
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a batch may have at most %d calls and run at most %d at a time", maxBatch, maxParallel)
	}
	calls := make([]toolroom.Call, len(body.Calls))
	for i, c := range body.Calls {
		if calls[i], err = c.call(auth.Identity(ctx), c.IdempotencyKey); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "call %d: %w", i+1, err)
		}
		calls[i].Environment = auth.Environment(ctx)
	}
	return in.answer(http.StatusOK, BatchResponse{Results: s.o.Runner.Batch(ctx, calls, body.Parallel)}), nil
}

// call returns the call that the body describes.
func (b NamedCallRequest) call(who toolroom.Identity, key string) (toolroom.Call, error) {
	if b.TimeoutMS < 0 {
		return toolroom.Call{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "timeout_ms is negative").WithHint("omit it for the default of 30 s")
	}
	if len(key) > maxIdempotencyKey {
		return toolroom.Call{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "the idempotency key has %d bytes; at most %d are allowed", len(key), maxIdempotencyKey)
	}
	return toolroom.Call{
		Tool: b.Tool, Arguments: b.Arguments, Identity: who, Session: b.Session, Surface: surface,
		Timeout:        time.Duration(min(b.TimeoutMS, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond,
		IdempotencyKey: key, NoWait: b.NoWait, MaxOutput: b.MaxOutput,
	}, nil
}

func statusOf(e *toolroom.Error) int {
	if e == nil {
		return http.StatusOK
	}
	return e.Code.Info().HTTPStatus
}

func (x *Exchange) retryAfter(e *toolroom.Error) {
	if after := problem.RetryAfter(e); after != "" {
		x.w.Header().Set("Retry-After", after)
	}
}

func prefersAsync(prefer string) bool {
	for preference := range strings.SplitSeq(prefer, ",") {
		name, _, _ := strings.Cut(preference, ";")
		if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
			return true
		}
	}
	return false
}

// execute calls code:execute with the body as its arguments.
func (s *Server) execute(ctx context.Context, in *Delivery) (*raw, error) {
	body, err := readJSON[code.Request](&in.Exchange)
	if err != nil {
		return nil, err
	}
	// The same names as on the command line: js, ts, py, sh.
	if language, ok := code.Language(body.Language); ok {
		body.Language = language
	}
	arguments, err := body.Arguments()
	if err != nil {
		return nil, err
	}
	return s.deliver(ctx, in, NamedCallRequest{Tool: code.Tool, CallRequest: CallRequest{Arguments: arguments}})
}

// running holds the running calls of this server, so that they can be cancelled by
// id. The zero value is ready for use.
type running struct {
	mu    sync.Mutex
	calls map[string]runningCall
}

type runningCall struct {
	owner  toolroom.Identity
	cancel context.CancelFunc
}

// add adds a call. Calling leave removes it.
func (r *running) add(id string, owner toolroom.Identity, cancel context.CancelFunc) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]runningCall{}
	}
	r.calls[id] = runningCall{owner, cancel}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, id)
	}
}

func (r *running) get(id string) (runningCall, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.calls[id]
	return c, ok
}
