package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
	"github.com/toolroom/toolroom/source"
)

// Ask puts a question of the server to whoever made the call: method is
// elicitation/create, sampling/createMessage or roots/list; params and the
// answer are the protocol's JSON. It is called concurrently and returns soon
// after ctx has ended. An error means that nobody answered.
type Ask func(ctx context.Context, req *source.Request, method string, params json.RawMessage) (json.RawMessage, error)

// The questions that a server may ask in mid-call.
const (
	askElicitation = "elicitation/create"
	askSampling    = "sampling/createMessage"
	askRoots       = "roots/list"
)

// maxRounds is how often a server may come back with questions in one call.
const maxRounds = 16

// abilities are what a server is told of its client.
func (s *Source) abilities() json.RawMessage {
	if s.o.Ask == nil {
		return json.RawMessage(`{"extensions":{"` + taskExtension + `":{}}}`)
	}
	return json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{},"extensions":{"` + taskExtension + `":{}}}`)
}

// converse calls a tool, answering what the server asks in between, and gives
// the raw result.
func (s *Source) converse(ctx context.Context, up *upstream, c *call) (json.RawMessage, error) {
	headers, err := s.paramHeaders(ctx, up, c.req)
	if err != nil {
		return nil, err
	}
	arguments := c.req.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	var replies []wire.Field
	for range maxRounds {
		raw, err := up.call(ctx, &wire.Request{
			Method: "tools/call",
			Name:   c.req.Tool.Name,
			Params: append([]wire.Field{wire.String("name", c.req.Tool.Name), {Name: "arguments", Value: arguments}}, replies...),
			Header: headers,
			Owner:  c,
		})
		if err != nil {
			return nil, err
		}
		r, err := readRound(raw)
		if err != nil {
			return nil, err
		}
		switch r.ResultType {
		case "task":
			return s.await(ctx, up, c, raw)
		case "input_required":
			answers, err := s.answer(ctx, c, r.Questions)
			if err != nil {
				return nil, err
			}
			replies = nil
			if answers != nil {
				replies = append(replies, wire.Field{Name: "inputResponses", Value: answers})
			}
			if len(r.State) > 0 {
				replies = append(replies, wire.Field{Name: "requestState", Value: r.State})
			}
		default:
			return raw, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s has asked %d times for more before it answers", s.o.Namespace, maxRounds)
}

// round is what tells a result from one that asks for more.
type round struct {
	ResultType string                     `json:"resultType"`
	Questions  map[string]json.RawMessage `json:"inputRequests"`
	State      json.RawMessage            `json:"requestState"`
}

func readRound(raw json.RawMessage) (round, error) {
	var r round
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("its result cannot be read: %w", err)
	}
	return r, nil
}

// answer answers all questions of a round, at the same time. It gives nil where
// there are none.
func (s *Source) answer(ctx context.Context, c *call, questions map[string]json.RawMessage) (json.RawMessage, error) {
	if len(questions) == 0 {
		return nil, nil
	}
	var mu sync.Mutex
	var failures []error
	answers := map[string]json.RawMessage{}
	var all sync.WaitGroup
	for key, question := range questions {
		all.Go(func() {
			var q struct {
				Method string          `json:"method"`
				Params json.RawMessage `json:"params"`
			}
			err := json.Unmarshal(question, &q)
			var given json.RawMessage
			if err == nil {
				given, err = s.ask(ctx, c, q.Method, q.Params)
			}
			mu.Lock()
			defer mu.Unlock()
			answers[key] = given
			if err != nil {
				failures = append(failures, err)
			}
		})
	}
	all.Wait()
	if len(failures) > 0 {
		return nil, errors.Join(failures...)
	}
	return json.Marshal(answers)
}

// ask puts one question. Who accepts a form need not fill in what has a
// default.
func (s *Source) ask(ctx context.Context, c *call, method string, params json.RawMessage) (json.RawMessage, error) {
	if s.o.Ask == nil || !slices.Contains([]string{askElicitation, askSampling, askRoots}, method) {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the MCP server %s asks for %s in mid-call, which nobody answers here", s.o.Namespace, method).
			WithHint("call the tool from an MCP client that supports %s", method)
	}
	given, err := s.o.Ask(ctx, c.req, method, params)
	if err != nil || method != askElicitation {
		return given, err
	}
	return withDefaults(params, given), nil
}

// withDefaults fills in the defaults of the fields that an accepted form leaves
// out. What is no form stays as it is.
func withDefaults(params, answer json.RawMessage) json.RawMessage {
	var form struct {
		Schema struct {
			Properties map[string]struct {
				Default json.RawMessage `json:"default"`
			} `json:"properties"`
		} `json:"requestedSchema"`
	}
	var given, filled map[string]json.RawMessage
	if json.Unmarshal(params, &form) != nil || json.Unmarshal(answer, &given) != nil || string(given["action"]) != `"accept"` {
		return answer
	}
	content := map[string]json.RawMessage{}
	for name, field := range form.Schema.Properties {
		if len(field.Default) > 0 {
			content[name] = field.Default
		}
	}
	if len(content) == 0 || len(given["content"]) > 0 && json.Unmarshal(given["content"], &filled) != nil {
		return answer
	}
	maps.Copy(content, filled)
	var err error
	if given["content"], err = json.Marshal(content); err != nil {
		return answer
	}
	whole, err := json.Marshal(given)
	if err != nil {
		return answer
	}
	return whole
}

// asked answers a question that a server of an older revision sends as a
// request of its own. Where it does not say which call it belongs to and more
// than one runs, nobody is asked: it may show what is another caller's.
func (s *Source) asked(ctx context.Context, owner any, method string, params json.RawMessage) (json.RawMessage, error) {
	c, _ := owner.(*call)
	if c == nil {
		c = s.calls.only()
	}
	if c == nil {
		return nil, fmt.Errorf("%s does not say which call it belongs to", method)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	return s.ask(ctx, c, method, params)
}
