//lint:file-ignore SA1019 sampling and roots are deprecated and still served

package mcpserver

import (
	"context"
	"encoding/json"

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
}

// exchange is a request that the SDK has read.
func (s *Server) exchange(ctx context.Context, session *mcp.ServerSession, caps *mcp.ClientCapabilities, progress any) *exchange {
	return &exchange{peer: peerOf(ctx, session, caps, progress), ctx: ctx, who: s.o.Identity(ctx)}
}

// takesRounds reports whether the request may be answered with questions or a
// task, or is of a later round: only such a request needs its digest.
func (x *exchange) takesRounds() bool {
	return x.modern() && (len(x.can) > 0 || x.tasks || x.state != "")
}

// said is the _meta of a request that the SDK has read, for the server behind the
// tool: as its client wrote it where we have read it too. It is nil where there
// is none.
func (s *Server) said(meta mcp.Meta) json.RawMessage {
	if p, ok := s.parked.take(meta); ok {
		return p.meta
	}
	return said(meta)
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

// repeats takes what a request of a later round says.
func (x *exchange) repeats(state string, answers mcp.InputResponseMap) error {
	x.state = state
	var err error
	x.answers, err = rawAnswers(answers)
	return err
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

// Ask puts the questions, all at once.
func (x *exchange) Ask(ctx context.Context, questions map[string]source.Question) (map[string]json.RawMessage, error) {
	return x.askFor(ctx, questions, "")
}

func (x *exchange) askFor(ctx context.Context, questions map[string]source.Question, _ string) (map[string]json.RawMessage, error) {
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
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client that would answer %s has left", q.Method)
	}
	// What is asked belongs to the request, and ends with the call.
	call := ctx
	ctx, cancel := context.WithCancel(v.ctx)
	defer cancel()
	defer context.AfterFunc(call, cancel)()
	var answer any
	var err error
	switch q.Method {
	case source.MethodElicit:
		var params mcp.ElicitParams
		if err := readQuestion(q, &params); err != nil {
			return nil, err
		}
		answer, err = v.session.Elicit(ctx, &params)
	case source.MethodSample:
		var tools struct {
			Tools []json.RawMessage `json:"tools"`
		}
		if err := readQuestion(q, &tools); err != nil {
			return nil, err
		}
		if len(tools.Tools) > 0 {
			var params mcp.CreateMessageWithToolsParams
			if err := readQuestion(q, &params); err != nil {
				return nil, err
			}
			answer, err = v.session.CreateMessageWithTools(ctx, &params)
			break
		}
		var params mcp.CreateMessageParams
		if err := readQuestion(q, &params); err != nil {
			return nil, err
		}
		answer, err = v.session.CreateMessage(ctx, &params)
	case source.MethodRoots:
		answer, err = v.session.ListRoots(ctx, &mcp.ListRootsParams{})
	default:
		return nil, source.Unanswerable(q.Method)
	}
	if err != nil {
		if call.Err() != nil {
			return nil, call.Err()
		}
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the client did not answer %s: %w", q.Method, err)
	}
	return json.Marshal(answer)
}

func readQuestion(q source.Question, into any) error {
	if err := json.Unmarshal(q.Params, into); err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the parameters of %s cannot be read: %w", q.Method, err)
	}
	return nil
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
