//lint:file-ignore SA1019 sampling and roots are deprecated and still served

package mcpserver

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/source"
)

// exchange is one request of a client, as far as every kind of request that may
// take several rounds has the same: tools/call, prompts/get, resources/read.
type exchange struct {
	peer
	ctx context.Context
	who toolroom.Identity
	// request is the digest of what is asked for.
	request []byte
	// state and answers are what a later round brings along.
	state   string
	answers map[string]json.RawMessage
	// server is where its answers to the questions of the call lie.
	server *Server
}

// exchange is a request that the SDK has read.
func (s *Server) exchange(ctx context.Context, session *mcp.ServerSession, caps *mcp.ClientCapabilities, progress any) *exchange {
	return &exchange{peer: peerOf(ctx, session, caps, progress), ctx: ctx, who: s.o.Identity(ctx), server: s}
}

// takesRounds reports whether the request may be answered with questions or a
// task, or is of a later round: only such a request needs its digest.
func (x *exchange) takesRounds() bool {
	return x.modern() && (len(x.can) > 0 || x.tasks || x.state != "")
}

// sent is what a request that the SDK has read says for the server behind, and what
// its client answers: as its client wrote it where we have read it too.
func (s *Server) sent(meta mcp.Meta, answers mcp.InputResponseMap) (parked, error) {
	if p, ok := s.parking.take(meta); ok {
		return p, nil
	}
	raw, err := rawAnswers(answers)
	return parked{meta: said(meta), answers: raw}, err
}

func said(meta mcp.Meta) json.RawMessage {
	if len(meta) == 0 {
		return nil
	}
	raw, err := jsonx.Marshal(meta)
	if err != nil {
		return nil
	}
	return raw
}

func rawAnswers(answers mcp.InputResponseMap) (map[string]json.RawMessage, error) {
	raw := make(map[string]json.RawMessage, len(answers))
	for key, answer := range answers {
		text, err := json.Marshal(answer)
		if err != nil {
			return nil, err
		}
		raw[key] = text
	}
	return raw, nil
}

// Can and Ask make an exchange of an older client the asker of its call: the
// questions go to the client as requests, on the session.

// Can reports whether the client answers questions of a method.
func (x *exchange) Can(method string) bool { return x.can[method] }

// Capabilities are what the client says that it can do.
func (x *exchange) Capabilities() json.RawMessage { return x.says }

// Ask puts the questions, all at once.
func (x *exchange) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	return x.AskFor(ctx, questions, "")
}

func (x *exchange) AskFor(ctx context.Context, questions map[string]source.Question, _ string) (map[string]json.RawMessage, error) {
	if err := answerable(x, questions); err != nil {
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
			answer, err := x.put(ctx, q)
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
func (x *exchange) put(ctx context.Context, q source.Question) (json.RawMessage, error) {
	v, ok := x.speak()
	if !ok {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client that should answer %s has disconnected", q.Method)
	}
	// What is asked belongs to the request, and ends with the call.
	call := ctx
	ctx, cancel := context.WithCancelCause(v.ctx)
	defer cancel(nil)
	defer context.AfterFunc(call, func() { cancel(context.Cause(call)) })()
	if q.Until != nil {
		defer context.AfterFunc(q.Until, func() { cancel(context.Cause(q.Until)) })()
	}
	defer x.server.replies.expect(v.session.ID())()
	defer x.server.known(v.session).follow(q)()
	ctx = withRaw(&asking{ctx, x.server.standIns}, question(q.Params))
	var answer mcp.Result
	var err error
	switch q.Method {
	case source.MethodElicit:
		var mode struct {
			Mode string `json:"mode"`
		}
		if err := json.Unmarshal(question(q.Params), &mode); err != nil {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "invalid parameters of %s: %w", q.Method, err)
		}
		x.server.visits.put(q, v.session)
		answer, err = v.session.Elicit(ctx, &mcp.ElicitParams{Mode: mode.Mode})
	case source.MethodSample:
		answer, err = v.session.CreateMessageWithTools(ctx, nil)
	case source.MethodRoots:
		answer, err = v.session.ListRoots(ctx, nil)
	default:
		return nil, source.Unanswerable(q.Method)
	}
	if err != nil {
		if call.Err() != nil {
			return nil, call.Err()
		}
		if q.Until != nil && q.Until.Err() != nil {
			return nil, nil
		}
		return nil, x.server.unanswered(q.Method, v.session.ID(), err)
	}
	raw, err := x.server.replies.take(v.session.ID(), answer)
	if err != nil {
		return nil, err
	}
	if !fitsQuestion(q, raw) {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client's answer to %s does not match the requested schema", q.Method)
	}
	return raw, nil
}

// question is what is asked, an empty object where that is nothing.
func question(params json.RawMessage) json.RawMessage {
	if len(params) == 0 {
		return json.RawMessage("{}")
	}
	return params
}

// unanswered is the error of a client that does not answer; what asks hears why.
func (s *Server) unanswered(method, session string, err error) error {
	if rpc := (*jsonrpc.Error)(nil); errors.As(err, &rpc) {
		err = s.replies.refusal(session, rpc)
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
