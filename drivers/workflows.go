package drivers

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/temporal"
	"github.com/toolroom/toolroom/internal/app"
	"github.com/toolroom/toolroom/internal/sandbox/program"
)

// Workflows runs workflows on Temporal in this process.
func Workflows(o app.WorkflowOptions) app.Workflows {
	return temporal.New(temporal.Options{
		Address: o.Address, Namespace: o.Namespace, Queue: o.Queue, Secret: o.SharedSecret,
		CA: o.CA, Cert: o.Cert, Key: o.Key, ServerName: o.ServerName, Log: o.Log,
	})
}

// workflowHandler serves workflows to toolroom.
type workflowHandler struct {
	log *slog.Logger

	mu       sync.Mutex
	settings app.TemporalSettings
	open     app.Workflows // nil before the first request
}

func newWorkflowHandler(log *slog.Logger) http.Handler {
	h := &workflowHandler{log: log}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+app.WorkflowProbePath, h.probe)
	mux.HandleFunc("POST "+app.WorkflowRunPath, h.run)
	return mux
}

// maxRequest is the maximum size of a request in bytes: that of a program or a chain.
const maxRequest = 64 << 20

// read reads a request and returns the workflows for its settings.
func (h *workflowHandler) read(w http.ResponseWriter, q *http.Request) (*app.WorkflowRequest, app.Workflows) {
	text, err := io.ReadAll(http.MaxBytesReader(w, q.Body, maxRequest))
	var r app.WorkflowRequest
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		program.Fail(w, http.StatusBadRequest, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read the request: %w", err))
		return nil, nil
	}
	r.Call.Identity.Token = r.Token
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open == nil || h.settings != r.Settings {
		// Workflows of the old connection go on; it ends with the process.
		h.settings = r.Settings
		h.open = Workflows(app.WorkflowOptions{
			Temporal: r.Settings.Config, Log: h.log,
			SharedSecret: func(context.Context) (string, error) { return r.Settings.Secret, nil },
		})
	}
	return &r, h.open
}

func (h *workflowHandler) probe(w http.ResponseWriter, q *http.Request) {
	if _, t := h.read(w, q); t != nil {
		_ = json.NewEncoder(w).Encode(t.Probe(q.Context())) // ignore clients that have gone
	}
}

// run runs a program or a chain, and cancels it if the client goes away.
func (h *workflowHandler) run(w http.ResponseWriter, q *http.Request) {
	r, t := h.read(w, q)
	if t == nil {
		return
	}
	messages := &messages{to: json.NewEncoder(w), flush: http.NewResponseController(w).Flush}
	ctx := temporal.WithPause(q.Context(), messages.pause)
	emit := func(e toolroom.Event) { messages.send(app.WorkflowMessage{Event: &e}) }
	var last app.WorkflowMessage
	var err error
	if r.Chain {
		last.Chain, err = t.Chain(ctx, r.Call, r.Steps, emit)
	} else {
		last.Result, err = t.Execute(ctx, r.Call, emit)
	}
	if err != nil {
		e := toolroom.AsError(err)
		last = app.WorkflowMessage{Error: e, CLIHint: e.CLIHint}
	}
	messages.send(last)
}

// messages writes an answer, a message at a time.
type messages struct {
	mu    sync.Mutex
	to    *json.Encoder
	flush func() error
}

func (m *messages) send(one app.WorkflowMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to.Encode(one) == nil { // ignore clients that have gone
		_ = m.flush()
	}
}

// pause tells the client that a person is being asked, until resume is called.
func (m *messages) pause() (resume func()) {
	is, over := true, false
	m.send(app.WorkflowMessage{Paused: &is})
	return func() { m.send(app.WorkflowMessage{Paused: &over}) }
}
