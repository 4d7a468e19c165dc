package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

const (
	// maxBody is the largest request, the runner's limit for arguments and some
	// room around them.
	maxBody = 5 << 20
	// firstModern is the first revision without sessions.
	firstModern = "2026-07-28"
	// lastLegacy is the last revision with them.
	lastLegacy = "2025-11-25"
)

// request is one request of a client, with who makes it and what its client can do. It
// is the asker of its call if the client has a session: questions go to the client as
// requests.
type request struct {
	*mcp.ServerRequest
	// answers are those to the questions of the round before.
	answers map[string]json.RawMessage
	ctx     context.Context
	who     toolroom.Identity
	server  *Server
	can     abilities
	// key is the idempotency key that the client gives the call.
	key string
	// tool is what tools/call names, resolved once; nil for other methods.
	tool *called
}

// called is the tool that a request calls.
type called struct {
	name   string         // as the client wrote it
	entry  *catalog.Entry // nil for a tool of this surface, and for one that is not found
	target *toolroom.Call // what is to be found; nil for a tool of this surface, and once it was looked for
}

// abilities are what the client of a request can do.
type abilities struct {
	methods map[string]bool // of the questions that it answers
	says    json.RawMessage // its capabilities, as it has them; nil if they are none
	tasks   bool
	pages   bool // it shows pages of MCP Apps
	// form and url are the ways in which it asks its user.
	form, url bool
}

func (s *Server) requestOf(ctx context.Context, r *mcp.ServerRequest) *request {
	who := s.o.Identity(ctx)
	q := &request{ServerRequest: r, answers: r.InputResponses, ctx: s.offering(ctx, who), who: who, server: s, can: abilitiesOf(r.Capabilities)}
	q.can.tasks = q.can.tasks && s.o.Worker != nil
	q.tool, _ = r.Value.(*called)
	if len(r.Meta) > 0 {
		q.key = idempotencyKey(r.Meta)
	}
	return q
}

// metaKey is where a client may put an idempotency key: the 2026-07-28 protocol
// has no other safe way to repeat a call.
const metaKey = "toolroom/idempotencyKey"

func idempotencyKey(meta json.RawMessage) string {
	if !bytes.Contains(meta, []byte("idempotencyKey")) && bytes.IndexByte(meta, '\\') < 0 {
		return "" // most requests have none, and need not be read for it
	}
	o, err := mcp.ReadObject(meta)
	if err != nil {
		return ""
	}
	var key string
	_ = json.Unmarshal(o.Get(metaKey), &key) // another type is no key
	return key
}

func abilitiesOf(capabilities json.RawMessage) abilities {
	if len(capabilities) == 0 || string(capabilities) == "{}" {
		return abilities{}
	}
	a := abilities{says: capabilities}
	members, err := jsonx.Members(capabilities)
	if err != nil {
		return a
	}
	for _, m := range members {
		if string(m.Value) == "null" {
			continue
		}
		switch m.Name {
		case "elicitation":
			a.answers(source.MethodElicit)
			var modes struct{ Form, URL *struct{} }
			_ = json.Unmarshal(m.Value, &modes) // one without modes is of forms
			a.form, a.url = modes.Form != nil || modes.URL == nil, modes.URL != nil
		case "sampling":
			a.answers(source.MethodSample)
		case "roots":
			a.answers(source.MethodRoots)
		case "extensions":
			var extensions map[string]json.RawMessage
			_ = json.Unmarshal(m.Value, &extensions) // others are none
			_, a.tasks = extensions[tasksExtension]
			_, a.pages = extensions[appsExtension]
		}
	}
	return a
}

func (a *abilities) answers(method string) {
	if a.methods == nil {
		a.methods = map[string]bool{}
	}
	a.methods[method] = true
}

// Can reports whether the client answers questions of a method.
func (a *abilities) Can(method string) bool { return a.methods[method] }

// Can and Capabilities say what the client answers.
func (r *request) Can(method string) bool { return r.can.Can(method) }

// Capabilities are what the client says that it can do.
func (r *request) Capabilities() json.RawMessage { return r.can.says }

// RecordTask does nothing: a task has an asker of its own.
func (r *request) RecordTask(context.Context, json.RawMessage) error { return nil }

// session is the id of the client's session, empty if there is none.
func (r *request) session() string {
	if r.Session == nil {
		return ""
	}
	return r.Session.ID()
}

// digest names what is asked for, so that the state of one request is not taken for
// another's.
func (r *request) digest() []byte { return requestDigest(r.Method, r.Name, r.Arguments) }

// A request is the client of its call until it is answered.

func (r *request) listening() *request { return r }

func (r *request) takesTasks() bool { return false }

func (r *request) comesBack() bool { return false }

// takesRounds reports whether the request may be answered with questions or a
// task, or is of a later round.
func (r *request) takesRounds() bool {
	return r.Modern() && (len(r.can.methods) > 0 || r.can.tasks || r.RequestState != "")
}

// Ask puts the questions, all at once.
func (r *request) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	return r.AskFor(ctx, questions, "")
}

func (r *request) AskFor(ctx context.Context, questions map[string]source.Question, _ string) (map[string]json.RawMessage, error) {
	if err := answerable(r, questions); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type reply struct {
		key    string
		answer json.RawMessage
		err    error
	}
	replies := make(chan reply, len(questions))
	for key, q := range questions {
		go func() {
			answer, err := r.put(ctx, q)
			replies <- reply{key, answer, err}
		}()
	}
	answers := make(map[string]json.RawMessage, len(questions))
	var failed error
	for range questions {
		r := <-replies
		if r.err != nil && failed == nil {
			failed = r.err
			cancel()
		}
		answers[r.key] = r.answer
	}
	return answers, failed
}

// put sends one question to a client with a session and waits for its answer.
func (r *request) put(ctx context.Context, q source.Question) (json.RawMessage, error) {
	call := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if q.Until != nil {
		defer context.AfterFunc(q.Until, func() { cancel(context.Cause(q.Until)) })()
	}
	if q.Method == source.MethodElicit {
		if err := r.elicits(q); err != nil {
			return nil, err
		}
		r.server.sentPages.put(q, r.Session)
	}
	raw, err := r.ServerRequest.Ask(ctx, mcp.Question{Method: q.Method, Params: q.Params, Progress: q.Progress})
	if err != nil {
		if call.Err() != nil {
			return nil, call.Err()
		}
		if q.Until != nil && q.Until.Err() != nil {
			return nil, nil
		}
		return nil, unanswered(q.Method, err)
	}
	if !fitsQuestion(q, raw) {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client's answer to %s does not match the requested schema", q.Method)
	}
	return raw, nil
}

// elicits returns an error if the client does not ask its user in the way of a question.
func (r *request) elicits(q source.Question) error {
	var mode struct {
		Mode string `json:"mode"`
	}
	if len(q.Params) > 0 {
		if err := json.Unmarshal(q.Params, &mode); err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid parameters of %s: %w", q.Method, err)
		}
	}
	switch {
	case mode.Mode == "url" && !r.can.url:
		return unanswered(q.Method, errors.New(`client does not support "url" elicitation`))
	case mode.Mode != "url" && !r.can.form:
		return unanswered(q.Method, errors.New(`client does not support "form" elicitation`))
	}
	return nil
}

// unanswered is the error of a client that does not answer; the source that asks receives
// the client's own words.
func unanswered(method string, err error) error {
	if failed := (*mcp.Error)(nil); errors.As(err, &failed) {
		err = &source.Refusal{Code: failed.Code, Message: failed.Message, Data: failed.Data, Sent: failed.Sent}
	}
	return toolroom.Errorf(toolroom.CodeUpstreamError, "the client did not answer %s: %w", method, err)
}

// answerable refuses questions that the client says it does not answer.
func answerable(a source.Asker, questions map[string]source.Question) error {
	for _, q := range questions {
		if !a.Can(q.Method) {
			return source.Unanswerable(q.Method)
		}
	}
	return nil
}
