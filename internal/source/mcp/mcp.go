// Package mcpsource makes the tools of an MCP server, over stdio or streamable
// HTTP, tools of Toolroom. It speaks through the official SDK, in whichever
// protocol era the server answers, and taps the connection for the raw JSON:
// the SDK's typed client rounds large integers and drops what it does not know.
package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/source"
)

// Config says where the server is. Exactly one of Command and URL is set.
type Config struct {
	Namespace string

	// Command and Args start a server on stdio; Env gives its whole
	// environment and is asked at each start, so that secrets can rotate.
	Command string
	Args    []string
	Env     func(context.Context) ([]string, error)
	Dir     string
	// Owner marks the process (see package proc).
	Owner string

	// URL is a streamable HTTP endpoint; Header gives the headers of each
	// request, and may be nil.
	URL    string
	Header func(context.Context) (http.Header, error)
	// Egress guards the connections to URL, which is permitted on top.
	Egress *egress.Guard

	// StartTimeout is how long connecting may take (60 s).
	StartTimeout time.Duration
	// Idle ends a stdio server after so long without a call; zero never does.
	Idle time.Duration
	Log  *slog.Logger
	// Version is told to the server.
	Version string
}

// Pauses between attempts to connect to a server that fails: the first, and
// the longest. Within a pause calls fail at once.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// maxPages bounds a list that never ends.
const maxPages = 1000

// Source is one MCP server. It connects at the first use.
type Source struct {
	o       Config
	client  *http.Client // of an endpoint
	changed func()

	mu sync.Mutex
	// up is the connection, nil when there is none; connecting is closed when
	// the attempt under way has ended.
	up         *upstream
	connecting chan struct{}
	closed     bool
	failure    error
	pause      time.Duration
	notBefore  time.Time
	about      source.Description

	calls listeners
}

// New makes a source; nothing is started until it is used.
func New(o Config) *Source {
	if o.StartTimeout == 0 {
		o.StartTimeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	// An address that is none fails when it is dialled.
	endpoint, _ := url.Parse(o.URL)
	return &Source{
		o:       o,
		client:  &http.Client{Transport: &headers{base: o.Egress.WithOwn(endpoint).Transport(), header: o.Header}},
		changed: func() {},
		about:   source.Description{Kind: toolroom.SourceMCP, Title: o.Namespace, State: "idle"},
	}
}

// Notify sets the function that hears of changed tools.
func (s *Source) Notify(changed func()) { s.changed = changed }

// Describe says what the server is and how it is.
func (s *Source) Describe() source.Description {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about
}

// Tools lists all pages of the server's tools.
func (s *Source) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	up, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if !up.offersTools() {
		return nil, nil
	}
	var tools []toolroom.Tool
	cursor := ""
	for range maxPages {
		page, err := up.listTools(ctx, cursor)
		if err != nil {
			return nil, s.fault(ctx, up, "list its tools", err)
		}
		for _, raw := range page.Tools {
			tool, err := readTool(s.o.Namespace, raw)
			if err != nil {
				s.o.Log.Warn("a tool of an MCP server was left out", "source", s.o.Namespace, "error", err)
				continue
			}
			tools = append(tools, tool)
		}
		if page.NextCursor == "" || page.NextCursor == cursor {
			return tools, nil
		}
		cursor = page.NextCursor
	}
	return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the tool list of %s has more than %d pages", s.o.Namespace, maxPages)
}

// Call calls one tool. Cancelling ctx tells the server to stop.
func (s *Source) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	up, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	token := up.token()
	leave := s.calls.enter(token, req.Emit)
	raw, err := up.callTool(ctx, token, req)
	leave()
	if err != nil {
		return nil, s.callFault(ctx, up, req.Tool, err)
	}
	return readResult(req.Tool, raw)
}

// Close ends the connection and the process behind it.
func (s *Source) Close() error {
	s.mu.Lock()
	s.closed = true
	up, connecting := s.up, s.connecting
	s.up = nil
	s.about.State = "closed"
	s.mu.Unlock()
	if connecting != nil {
		<-connecting
		s.mu.Lock()
		up, s.up = s.up, nil
		s.mu.Unlock()
	}
	if up != nil {
		up.close()
	}
	return nil
}

// connect gives the connection, making it when there is none. Callers that come
// while one connects wait for it; after a failure, calls within the pause fail
// at once.
func (s *Source) connect(ctx context.Context) (*upstream, error) {
	for {
		s.mu.Lock()
		switch {
		case s.closed:
			s.mu.Unlock()
			return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", s.o.Namespace)
		case s.up != nil:
			up := s.up
			s.mu.Unlock()
			return up, nil
		case s.connecting != nil:
			wait := s.connecting
			s.mu.Unlock()
			select {
			case <-wait:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case time.Now().Before(s.notBefore):
			err := s.failure
			s.mu.Unlock()
			return nil, err
		}
		done := make(chan struct{})
		s.connecting = done
		s.about.State, s.about.Reason = "connecting", ""
		s.mu.Unlock()
		// The attempt is everybody's: it goes on when this caller leaves.
		go s.attempt(done)
	}
}

func (s *Source) attempt(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.StartTimeout)
	defer cancel()
	up, err := s.dial(ctx)

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(done)
	s.connecting = nil
	if err != nil {
		s.pause = min(max(2*s.pause, firstPause), lastPause)
		s.notBefore = time.Now().Add(s.pause)
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s cannot be reached: %w", s.o.Namespace, err)
		e.Details = map[string]any{"retry_after_seconds": s.pause.Seconds(), "effects": toolroom.EffectsNone}
		e = e.WithHint("see what is wrong: toolroom sources test %s", s.o.Namespace)
		if refused := toolroom.AsError(err); refused.Code == toolroom.CodeDenied { // by the egress guard
			e.Code, e.Hint, e.Retryable = refused.Code, refused.Hint, false
		}
		s.failure = e
		s.about.State, s.about.Reason = "backing off", err.Error()
		return
	}
	s.pause, s.failure, s.notBefore = 0, nil, time.Time{}
	s.up = up
	s.about = up.describe(s.o.Namespace)
	go s.watch(up)
}

// watch forgets a connection that has ended, so that the next call makes a new
// one, and ends one that is idle.
func (s *Source) watch(up *upstream) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = up.session.Wait()
	}()
	var idle <-chan time.Time
	if s.o.Idle > 0 && s.o.Command != "" {
		ticker := time.NewTicker(s.o.Idle / 4)
		defer ticker.Stop()
		idle = ticker.C
	}
	for {
		select {
		case <-ended:
			s.forget(up, "it ended; the next call starts it again")
			return
		case <-idle:
			if up.idleSince(time.Now()) >= s.o.Idle {
				s.forget(up, "it was not used; the next call starts it again")
				<-ended
				return
			}
		}
	}
}

func (s *Source) forget(up *upstream, reason string) {
	s.mu.Lock()
	if s.up == up {
		s.up = nil
		s.about.State, s.about.Reason = "idle", reason
	}
	s.mu.Unlock()
	up.close()
}

// fault gives the error of a request its meaning.
func (s *Source) fault(ctx context.Context, up *upstream, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var rpc *jsonrpc.Error
	if errors.As(err, &rpc) && !isSDKClosing(rpc) {
		e := toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s refused to %s: %s", s.o.Namespace, what, rpc.Message)
		e.Details = map[string]any{"rpc_code": rpc.Code}
		if len(rpc.Data) > 0 {
			e.Details["rpc_data"] = json.RawMessage(rpc.Data)
		}
		return e
	}
	s.forget(up, err.Error())
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s did not answer the request to %s: %w", s.o.Namespace, what, err)
	if tail := up.stderr.tail(); tail != "" {
		e.Details = map[string]any{"stderr": tail}
	}
	return e.WithHint("the next call connects anew; see what is wrong: toolroom sources test %s", s.o.Namespace)
}

// callFault is fault for a call: a server that refuses a tool which it does not
// list has no such tool.
func (s *Source) callFault(ctx context.Context, up *upstream, tool toolroom.ID, err error) error {
	fault := s.fault(ctx, up, "call "+tool.Name, err)
	if toolroom.CodeOf(fault) != toolroom.CodeUpstreamError {
		return fault
	}
	tools, listErr := s.Tools(ctx)
	listed := slices.ContainsFunc(tools, func(t toolroom.Tool) bool { return t.ID.Name == tool.Name })
	if listErr != nil || listed {
		return fault
	}
	return toolroom.Errorf(toolroom.CodeToolNotFound, "the MCP server %s has no tool %s (any more)", s.o.Namespace, tool.Name)
}

// isSDKClosing reports whether an error only looks like an answer: the SDK
// reports a connection that closed with these codes of its own.
func isSDKClosing(e *jsonrpc.Error) bool {
	return strings.Contains(e.Message, "client is closing") || strings.Contains(e.Message, "server is closing")
}

// readTool reads a tool as the server sent it.
func readTool(namespace string, raw json.RawMessage) (toolroom.Tool, error) {
	var wire struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  struct {
			Title       string `json:"title"`
			ReadOnly    *bool  `json:"readOnlyHint"`
			Destructive *bool  `json:"destructiveHint"`
			Idempotent  *bool  `json:"idempotentHint"`
			OpenWorld   *bool  `json:"openWorldHint"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return toolroom.Tool{}, fmt.Errorf("a tool definition of %s cannot be read: %w", namespace, err)
	}
	id := toolroom.ID{Namespace: namespace, Name: wire.Name}
	if err := id.Validate(); err != nil {
		return toolroom.Tool{}, err
	}
	title := wire.Title
	if title == "" {
		title = wire.Annotations.Title
	}
	return toolroom.Tool{
		ID: id, Title: title, Description: wire.Description,
		InputSchema: wire.InputSchema, OutputSchema: wire.OutputSchema,
		Hints: toolroom.Hints{
			ReadOnly: wire.Annotations.ReadOnly, Destructive: wire.Annotations.Destructive,
			Idempotent: wire.Annotations.Idempotent, OpenWorld: wire.Annotations.OpenWorld,
		},
		Source: toolroom.SourceMCP,
		Raw:    raw,
	}, nil
}

// readResult reads a result as the server sent it: structured content is the
// value; content alone is made a value by the runner.
func readResult(tool toolroom.ID, raw json.RawMessage) (*source.Output, error) {
	var wire struct {
		Content           []toolroom.Content `json:"content"`
		StructuredContent json.RawMessage    `json:"structuredContent"`
		IsError           bool               `json:"isError"`
		ResultType        string             `json:"resultType"`
	}
	if err := json.Unmarshal(raw, &wire); err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the result of %s cannot be read: %w", tool, err)
	}
	if wire.ResultType != "" && wire.ResultType != "complete" {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "%s answered with a result of type %q, which cannot be carried on here yet", tool, wire.ResultType)
	}
	if string(wire.StructuredContent) == "null" {
		wire.StructuredContent = nil
	}
	return &source.Output{Value: wire.StructuredContent, Content: wire.Content, Failed: wire.IsError, Raw: raw}, nil
}
