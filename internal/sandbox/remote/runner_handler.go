package remote

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/sandbox"
)

// Handler returns the handler for the requests of package remote.
func (r *Runner) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathHealth, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.Handle("GET "+PathProbe, r.requireSignature(r.serveProbe))
	mux.Handle("POST "+PathSandboxes, r.requireSignature(r.serveStart))
	if r.o.Local {
		mux.Handle("POST "+PathClean, r.requireSignature(r.serveClean))
	}
	one := PathSandboxes + "/{id}"
	mux.Handle("GET "+one+"/stream", r.requireSignature(r.serveStream))
	mux.Handle("GET "+one+"/exit", r.requireSignature(r.serveExit))
	mux.Handle("GET "+one+"/usage", r.requireSignature(r.serveUsage))
	mux.Handle("DELETE "+one, r.requireSignature(r.serveKill))
	return mux
}

// request is a verified request.
type request struct {
	*http.Request
	identity string
	body     []byte
}

// requireSignature calls serve for requests with a valid signature.
func (r *Runner) requireSignature(serve func(http.ResponseWriter, *request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		tooLong := toolroom.Errorf(toolroom.CodeInvalidArguments, "the request is longer than %d bytes", MaxBody)
		if q.ContentLength > MaxBody {
			w.Header().Set("Connection", "close")
			answer(w, http.StatusRequestEntityTooLarge, Problem{Error: tooLong})
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, q.Body, MaxBody))
		var over *http.MaxBytesError
		switch {
		case errors.As(err, &over):
			answer(w, http.StatusRequestEntityTooLarge, Problem{Error: tooLong})
			return
		case err != nil:
			answer(w, http.StatusBadRequest, Problem{Error: toolroom.Errorf(toolroom.CodeInvalidArguments, "the request broke off")})
			return
		}
		var identity string
		if !r.o.Local {
			if identity, err = r.verifier.Verify(q, body); err != nil {
				r.refuse(w, q, err)
				return
			}
		}
		// The whole request has been read; serving it may take longer.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		serve(w, &request{Request: q, identity: identity, body: body})
	})
}

// refuse answers a request whose signature is not valid.
func (r *Runner) refuse(w http.ResponseWriter, q *http.Request, err error) {
	refusal := &Refusal{}
	errors.As(err, &refusal)
	r.o.Log.Warn("refused a request", "from", q.RemoteAddr, "path", q.URL.Path, "reason", refusal.Reason, "detail", refusal.Error())
	status, code := http.StatusUnauthorized, toolroom.CodeUnauthenticated
	if refusal.Reason == ReasonEarly || refusal.Reason == ReasonBusy {
		status, code = http.StatusServiceUnavailable, toolroom.CodeUpstreamUnavailable
	}
	answer(w, status, Problem{
		Error: toolroom.Errorf(code, "%s", refusal.Error()), Reason: refusal.Reason, SkewMS: refusal.Skew.Milliseconds(),
	})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // ignore clients that have gone
}

// fail answers with an error. An error of the driver is permanent, so its status is not a
// 5xx, after which clients repeat the request.
func fail(w http.ResponseWriter, err error) {
	e := toolroom.AsError(err)
	status := e.Code.Info().HTTPStatus
	if status >= 500 && e.Code != toolroom.CodeInternal {
		status = http.StatusFailedDependency
	}
	answer(w, status, Problem{Error: e, CLIHint: e.CLIHint})
}

func (r *Runner) serveProbe(w http.ResponseWriter, q *request) {
	if r.o.Local {
		d := r.currentDriver()
		answer(w, http.StatusOK, Report{Driver: d.Name(), Probe: d.Probe(q.Context())})
		return
	}
	answer(w, http.StatusOK, Report{Driver: r.o.Driver.Name(), Probe: r.probe.get()})
}

func (r *Runner) serveClean(w http.ResponseWriter, q *request) {
	var cleaned Cleaned
	if c, ok := r.currentDriver().(sandbox.Cleaner); ok {
		var err error
		if cleaned.Leftovers, err = c.Clean(q.Context(), q.URL.Query().Get("dry") != "false"); err != nil {
			cleaned.Error = err.Error()
		}
	}
	answer(w, http.StatusOK, cleaned)
}

func (r *Runner) serveStart(w http.ResponseWriter, q *request) {
	var order Order
	// An unknown limit must not be ignored.
	if err := jsonx.UnmarshalKnown(q.body, &order, jsonx.Limits{Bytes: len(q.body)}); err != nil {
		fail(w, toolroom.Errorf(toolroom.CodeInvalidArguments, "cannot read the order: %w", err).
			WithHint("client and runner should be of the same version"))
		return
	}
	if !isID(order.ID) {
		fail(w, toolroom.Errorf(toolroom.CodeInvalidArguments, "%q is not the id of a sandbox: want 32 hex digits", order.ID))
		return
	}
	if !r.o.Local && (order.Guest != "" || len(order.Args) > 0 || order.Layer != "" || len(order.Folders) > 0) {
		fail(w, toolroom.Errorf(toolroom.CodeInvalidArguments, "an order from another machine cannot name a guest or a layer"))
		return
	}
	started, err := r.start(q.Context(), runID{q.identity, order.ID}, order.Spec())
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, started)
}

func isID(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == 32
}

// find returns the run of a request, or answers that it does not exist. Runs of other
// clients do not exist for this one.
func (r *Runner) find(w http.ResponseWriter, q *request) *run {
	r.mu.Lock()
	found := r.runs[runID{q.identity, q.PathValue("id")}]
	r.mu.Unlock()
	if found == nil {
		fail(w, toolroom.Errorf(toolroom.CodeNotFound, "there is no such sandbox here").
			WithHint("it has ended, or the runner was restarted"))
	}
	return found
}

// exitWait is the time after which a request for the exit is answered without one.
const exitWait = 20 * time.Second

func (r *Runner) serveExit(w http.ResponseWriter, q *request) {
	run := r.find(w, q)
	if run == nil {
		return
	}
	ctx, done := context.WithTimeout(q.Context(), exitWait)
	defer done()
	end, err := run.wait(ctx)
	switch {
	case ctx.Err() != nil && err != nil:
		w.WriteHeader(http.StatusNoContent)
	case err != nil:
		fail(w, err)
	default:
		answer(w, http.StatusOK, end)
	}
}

func (r *Runner) serveUsage(w http.ResponseWriter, q *request) {
	if run := r.find(w, q); run != nil {
		answer(w, http.StatusOK, run.usage())
	}
}

func (r *Runner) serveKill(w http.ResponseWriter, q *request) {
	if id := q.PathValue("id"); !isID(id) {
		fail(w, toolroom.Errorf(toolroom.CodeNotFound, "there is no such sandbox here"))
		return
	}
	// Mark an unknown run as ended, so that an order still on its way does not start it.
	run := r.findOrEnd(runID{q.identity, q.PathValue("id")})
	if err := run.kill(); err != nil {
		fail(w, toolroom.Errorf(toolroom.CodeInternal, "cannot remove the sandbox: %w", err))
		return
	}
	answer(w, http.StatusOK, run.usage())
}
