package source

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom"
)

// Asker puts questions to the client that made a call: to its user, to its
// model, or about its folders. A tool finds it in its [Request]. Whether the
// client hears the question as a request of its own or as a result that it
// answers by repeating the call is the surface's affair; the tool just waits.
type Asker interface {
	// Can reports whether the client says that it answers questions of a method.
	Can(method string) bool

	// Ask puts questions, each under a key of the tool's choosing, all at once,
	// and waits until every one has an answer. Each answer is the JSON result
	// that the method has in MCP. The wait does not count against the deadline
	// of the call. It may be called concurrently; keys must differ then.
	//
	// A question that the client cannot be asked is an error with code
	// unsupported, before any is put; see [Unanswerable].
	//
	// A question that is withdrawn meanwhile has no answer.
	Ask(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)
}

// Able is implemented by an [Asker] that knows what its client says of itself.
// Capabilities is that as MCP has it, a JSON object; nil where nothing is said.
type Able interface {
	Capabilities() json.RawMessage
}

// Noter is implemented by an [Asker] whose client may look at what it waits for: a
// task. Note keeps the newest state of what [Request.Task] was told of, from which
// it is carried on, too. It is called whenever that has changed.
type Noter interface {
	Note(ctx context.Context, state json.RawMessage) error
}

// Question is one question: a method and its parameters, as MCP has them.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`

	// Sent is the whole question, and Round the result that it is in, as an MCP
	// server without sessions sent them: a client of the same era gets what else
	// they say. Nil where there is none: a task has no round.
	Sent  json.RawMessage `json:"-"`
	Round json.RawMessage `json:"-"`

	// Source is the namespace of the source that asks; empty is none.
	Source string `json:"-"`

	// Until, where it is not nil, ends when the question is withdrawn, of which the
	// cause says why. It then needs no answer, and Ask gives none.
	Until context.Context `json:"-"`
	// Progress, where it is not nil, hears how far the client has come with the
	// answer: the parameters of its notifications/progress, as MCP has them. It must
	// not block.
	Progress func(said json.RawMessage) `json:"-"`
}

// Withdrawn is closed when the question needs no answer any more; nil is never.
func (q *Question) Withdrawn() <-chan struct{} {
	if q.Until == nil {
		return nil
	}
	return q.Until.Done()
}

// The methods of questions.
const (
	MethodElicit = "elicitation/create"
	MethodSample = "sampling/createMessage"
	MethodRoots  = "roots/list"
)

// Elicited is a user's answer: accept, decline or cancel, and with accept what
// the user filled in.
type Elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

// Elicit asks the user one question, with a form that schema describes.
func Elicit(ctx context.Context, a Asker, key, message string, schema json.RawMessage) (Elicited, error) {
	params, err := json.Marshal(struct {
		Message string          `json:"message"`
		Schema  json.RawMessage `json:"requestedSchema"`
	}{message, schema})
	if err != nil {
		return Elicited{}, err
	}
	var answer Elicited
	return answer, askOne(ctx, a, key, Question{Method: MethodElicit, Params: params}, &answer)
}

func askOne(ctx context.Context, a Asker, key string, q Question, into any) error {
	answers, err := a.Ask(ctx, map[string]Question{key: q})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(answers[key], into); err != nil {
		return toolroom.Errorf(toolroom.CodeUpstreamError, "the client's answer to %s cannot be read: %w", q.Method, err)
	}
	return nil
}

// DetailCapabilities is the key, in the details of an error, of the
// capabilities that a client must declare for the call to work.
const DetailCapabilities = "requiredCapabilities"

// Keys, in the details of an error, of the JSON-RPC error that stands behind it:
// the code (an int64), the message, and the data ([json.RawMessage]) as the
// server sent them. A surface that speaks JSON-RPC passes it on as it is.
const (
	DetailRPCCode    = "rpc_code"
	DetailRPCMessage = "rpc_message"
	DetailRPCData    = "rpc_data"
	// DetailRPCSent is the whole error ([json.RawMessage]), where it says more.
	DetailRPCSent = "rpc_sent"
)

// Unanswerable is the error of a call that needs an answer which the client
// does not give.
func Unanswerable(method string) *toolroom.Error {
	capability := map[string]any{}
	e := toolroom.Errorf(toolroom.CodeUnsupported, "the client does not answer %s", method)
	switch method {
	case MethodElicit:
		capability["elicitation"] = map[string]any{}
		e.Hint = "call from a client that can ask its user (elicitation)"
	case MethodSample:
		capability["sampling"] = map[string]any{}
		e.Hint = "call from a client that lets servers use its model (sampling)"
	case MethodRoots:
		capability["roots"] = map[string]any{}
		e.Hint = "call from a client that names its folders (roots)"
	}
	e.Details = map[string]any{DetailCapabilities: capability, "effects": toolroom.EffectsNone}
	return e
}

// Refusal is in the error of [Asker.Ask] when the client refused to answer: the
// JSON-RPC error that it sent, for a tool that asked on behalf of another server.
type Refusal struct {
	Code    int64
	Message string
	Data    json.RawMessage
	// Sent is the whole error as the client wrote it, nil where it is not known.
	Sent json.RawMessage
}

// Error is the message with its code.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Message, r.Code) }

// Nobody is the Asker of a call whose client answers nothing.
type Nobody struct{}

// Can is always false.
func (Nobody) Can(string) bool { return false }

// Ask refuses.
func (Nobody) Ask(_ context.Context, questions map[string]Question) (map[string]json.RawMessage, error) {
	for _, q := range questions {
		return nil, Unanswerable(q.Method)
	}
	return nil, nil
}
