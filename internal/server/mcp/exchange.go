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
	ctx     context.Context
	session *mcp.ServerSession
	who     toolroom.Identity
	version string
	// can says which questions the client answers.
	can map[string]bool
	// request is the digest of what is asked for.
	request []byte
	// state and answers are what a later round brings along.
	state   string
	answers map[string]json.RawMessage
	// tasks says that the client takes a task for an answer.
	tasks bool
	// progress is the client's token, nil where it wants to hear of none.
	progress any
}

func (s *Server) exchange(ctx context.Context, session *mcp.ServerSession, caps *mcp.ClientCapabilities, progress any) *exchange {
	x := &exchange{ctx: ctx, session: session, who: s.o.Identity(ctx), version: speaksVersion(session), can: map[string]bool{}, progress: progress}
	if caps == nil {
		return x
	}
	for method, declared := range map[string]bool{
		source.MethodElicit: caps.Elicitation != nil, source.MethodSample: caps.Sampling != nil, source.MethodRoots: caps.RootsV2 != nil,
	} {
		if declared {
			x.can[method] = true
		}
	}
	return x
}

// said is the _meta of a request, for the server behind the tool. It is nil where
// there is none.
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

// modern reports whether the client has no session.
func (x *exchange) modern() bool { return x.version >= firstModern }

// repeats takes what a request of a later round says.
func (x *exchange) repeats(state string, answers mcp.InputResponseMap) error {
	x.state = state
	x.answers = make(map[string]json.RawMessage, len(answers))
	for key, answer := range answers {
		raw, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		x.answers[key] = raw
	}
	return nil
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
	var answer any
	var err error
	switch q.Method {
	case source.MethodElicit:
		var params mcp.ElicitParams
		if err := readQuestion(q, &params); err != nil {
			return nil, err
		}
		answer, err = x.session.Elicit(ctx, &params)
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
			answer, err = x.session.CreateMessageWithTools(ctx, &params)
			break
		}
		var params mcp.CreateMessageParams
		if err := readQuestion(q, &params); err != nil {
			return nil, err
		}
		answer, err = x.session.CreateMessage(ctx, &params)
	case source.MethodRoots:
		answer, err = x.session.ListRoots(ctx, &mcp.ListRootsParams{})
	default:
		return nil, source.Unanswerable(q.Method)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
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
