package source

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolroom/toolroom"
)

// Asker asks questions of the client that made a call: of its user, of its
// model, or about its folders. A tool finds it in its [Request]. The surface
// decides how the question reaches the client: as a separate request, or as a
// result that the client answers by repeating the call. The tool only waits.
type Asker interface {
	// Can reports whether the client declares that it answers questions of a
	// method.
	Can(method string) bool

	// Ask asks all questions at once, each under a key that the tool chooses, and
	// waits until every question has an answer. Each answer is the JSON result of
	// the method as MCP defines it. The wait does not count against the deadline of
	// the call. Ask may be called concurrently; the keys of such calls must differ.
	//
	// If the client cannot answer one of the questions, Ask asks none and returns
	// an error with code unsupported; see [Unanswerable].
	//
	// A question that is withdrawn meanwhile has no answer.
	Ask(ctx context.Context, questions map[string]Question) (map[string]json.RawMessage, error)

	// Capabilities returns the client's capabilities in MCP's format, a JSON
	// object, or nil if the client declared none.
	Capabilities() json.RawMessage

	// RecordTask stores the newest state of the task that [Request.Task] announced.
	// The client can read it, and a later call resumes from it. The source calls
	// RecordTask whenever the state has changed. It does nothing for a call that is no
	// task.
	RecordTask(ctx context.Context, state json.RawMessage) error
}

// Question is one question: a method and its parameters, as MCP defines them.
type Question struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params,omitempty"`

	// Sent is the whole question, and Round the result that contains it, as an MCP
	// server without sessions sent them. A client of the same era receives their
	// further members. Either may be nil: a task has no round.
	Sent  json.RawMessage `json:"-"`
	Round json.RawMessage `json:"-"`

	// Source is the namespace of the source that asks; empty means none.
	Source string `json:"-"`

	// Until ends when the question is withdrawn; its cause says why. The question
	// then needs no answer, and Ask returns none for it. Nil is never withdrawn.
	Until context.Context `json:"-"`
	// Progress receives the parameters of the client's notifications/progress while
	// it works on the answer, or is nil. It must not block.
	Progress func(params json.RawMessage) `json:"-"`
}

// Withdrawn returns a channel that is closed when the question is withdrawn, or
// nil if it cannot be withdrawn.
func (q *Question) Withdrawn() <-chan struct{} {
	if q.Until == nil {
		return nil
	}
	return q.Until.Done()
}

// Methods of questions.
const (
	MethodElicit = "elicitation/create"
	MethodSample = "sampling/createMessage"
	MethodRoots  = "roots/list"
)

// Elicited is a user's answer. Action is accept, decline or cancel; with accept,
// Content holds the completed form.
type Elicited struct {
	Action  string          `json:"action"`
	Content json.RawMessage `json:"content,omitempty"`
}

// Elicit asks the user one question, with a form described by schema.
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

// Unanswerable returns the error of a call that needs an answer to a method which
// the client does not support.
func Unanswerable(method string) *toolroom.Error {
	capability := map[string]any{}
	e := toolroom.Errorf(toolroom.CodeUnsupported, "the client does not support %s", method)
	switch method {
	case MethodElicit:
		capability["elicitation"] = map[string]any{}
		e.Hint = "call from a client that can ask its user (elicitation)"
	case MethodSample:
		capability["sampling"] = map[string]any{}
		e.Hint = "call from a client that lets servers use its model (sampling)"
	case MethodRoots:
		capability["roots"] = map[string]any{}
		e.Hint = "call from a client that lists its folders (roots)"
	}
	e.Missing, e.Effects = capability, toolroom.EffectsNone
	return e
}

// Refusal is in the error of [Asker.Ask] if the client refused to answer. It
// holds the JSON-RPC error of the client, so that a tool that asked on behalf of
// another server can forward it.
type Refusal struct {
	Code    int64
	Message string
	Data    json.RawMessage
	// Sent is the whole error as the client wrote it, or nil if it is unknown.
	Sent json.RawMessage
}

// Error returns the message with its code.
func (r *Refusal) Error() string { return fmt.Sprintf("%s (%d)", r.Message, r.Code) }

// NoAsker is the Asker of a call whose client answers no questions. Embed it in an Asker
// that has only some of the methods.
type NoAsker struct{}

// Can returns false.
func (NoAsker) Can(string) bool { return false }

// Ask returns an error if there are questions.
func (NoAsker) Ask(_ context.Context, questions map[string]Question) (map[string]json.RawMessage, error) {
	for _, q := range questions {
		return nil, Unanswerable(q.Method)
	}
	return nil, nil
}

// Capabilities returns nil.
func (NoAsker) Capabilities() json.RawMessage { return nil }

// RecordTask does nothing.
func (NoAsker) RecordTask(context.Context, json.RawMessage) error { return nil }
