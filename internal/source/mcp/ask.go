package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// maxRounds limits how often a server may return questions in one call.
const maxRounds = 16

// serverRequest is a request to the server that may take several rounds.
type serverRequest struct {
	method string
	name   string // the tool, the prompt or the URI
	params []mcp.Field
	header map[string]string
	// task is the task that the server has begun for the request, or nil.
	task json.RawMessage
	// sent means that the server may have received the request.
	sent bool
	// members are the members of the result if they have been read already.
	members []jsonx.Member
}

// exchangeRounds makes a request, answers the server's questions until there is a result, and
// returns the raw result.
func (s *Source) exchangeRounds(ctx context.Context, up *upstream, c *call, e *serverRequest) (json.RawMessage, error) {
	if e.task != nil {
		return s.pollTask(ctx, up, c, e.task)
	}
	var replies []mcp.Field
	more := forwardedParams(c.req.More, e.params...)
	asker := c.asker()
	able := capabilitiesOf(asker).forModern(asker.Can(source.MethodRoots))
	for range maxRounds {
		raw, err := up.call(ctx, &mcp.Request{
			Method: e.method,
			Name:   e.name,
			Params: slices.Concat(e.params, more, replies),
			Header: e.header,
			Meta:   forwardedMeta(c.req.Meta),
			Owner:  c,

			Capabilities: able,
		})
		if err != nil {
			return nil, err
		}
		members, err := jsonx.Members(raw)
		if err != nil {
			return nil, fmt.Errorf("its result cannot be read: %w", err)
		}
		r, err := readRound(members)
		if err != nil {
			return nil, err
		}
		switch r.ResultType {
		case "task":
			e.task = raw // if the connection is lost, a new one polls this task
			if err := c.reportTask(ctx, up, raw); err != nil {
				return nil, err
			}
			return s.pollTask(ctx, up, c, raw)
		case "input_required":
			answers, err := s.answerRound(ctx, c, r.Questions, raw)
			if err != nil {
				return nil, err
			}
			replies = nil
			if answers != nil {
				replies = append(replies, mcp.Field{Name: "inputResponses", Value: answers})
			}
			if len(r.State) > 0 {
				replies = append(replies, mcp.Field{Name: "requestState", Value: r.State})
			}
		default:
			e.members = members
			return raw, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s asked for more input %d times without returning a result", s.o.Namespace, maxRounds)
}

// connectionMeta are the members of _meta that concern one connection only.
var connectionMeta = append(mcp.MetaNames(), "progressToken")

// forwardedMeta returns the members of a client's _meta that are forwarded to the server:
// all except connectionMeta and our own.
func forwardedMeta(meta json.RawMessage) []mcp.Field {
	if len(meta) == 0 {
		return nil
	}
	return fieldsWithout(meta, connectionMeta, func(name string) bool { return strings.HasPrefix(name, "toolroom/") })
}

// forwardedParams returns the members of a client's request that are forwarded to the
// server in addition to those that Toolroom writes. It also drops names that differ
// from these in case only: a lax server could read them in place of the members
// that policy has checked.
func forwardedParams(more json.RawMessage, about ...mcp.Field) []mcp.Field {
	if len(more) == 0 {
		return nil
	}
	// Toolroom does not support the tasks of 2025-11-25.
	names := []string{"_meta", "name", "arguments", "inputResponses", "requestState", "task"}
	for _, f := range about {
		names = append(names, f.Name)
	}
	return fieldsWithout(more, names, nil)
}

// fieldsWithout returns the members of an object except those with these names, in
// any case, and those for which drop returns true.
func fieldsWithout(object json.RawMessage, names []string, drop func(name string) bool) []mcp.Field {
	members, err := jsonx.Members(object)
	if err != nil {
		return nil
	}
	var fields []mcp.Field
	for _, m := range members {
		if drop != nil && drop(m.Name) || slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, m.Name) }) {
			continue
		}
		fields = append(fields, mcp.Field{Name: m.Name, Value: m.Value})
	}
	return fields
}

// round holds the members that tell whether a result is final or asks questions.
type round struct {
	ResultType string
	Questions  map[string]json.RawMessage
	State      json.RawMessage
}

func readRound(members []jsonx.Member) (r round, err error) {
	for _, m := range members {
		switch m.Name {
		case "resultType":
			if string(m.Value) != `"complete"` { // "complete" is the same as no type
				err = errors.Join(err, json.Unmarshal(m.Value, &r.ResultType))
			}
		case "inputRequests":
			err = errors.Join(err, json.Unmarshal(m.Value, &r.Questions))
		case "requestState":
			r.State = m.Value
		}
	}
	if err != nil {
		return r, fmt.Errorf("its result cannot be read: %w", err)
	}
	return r, nil
}

// answerRound asks the client all questions of a round, and returns the answers as JSON. result
// is the raw result with the questions, or nil if they are those of a task. It returns nil if
// there are no questions.
func (s *Source) answerRound(ctx context.Context, c *call, asked map[string]json.RawMessage, result json.RawMessage) (json.RawMessage, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	questions := map[string]source.Question{}
	for key, raw := range asked {
		var q source.Question
		if err := json.Unmarshal(raw, &q); err != nil {
			return nil, fmt.Errorf("its question %q cannot be read: %w", key, err)
		}
		q.Sent, q.Round, q.Source = raw, result, s.o.Namespace
		questions[key] = q
	}
	answers, err := c.askCaller(ctx, questions)
	if err != nil {
		return nil, err
	}
	for key, q := range questions {
		answers[key] = withDefaults(q, answers[key])
	}
	return jsonx.Marshal(answers)
}

// withDefaults returns the answer to a form with the defaults of the fields that it leaves out.
// It returns all other answers unchanged.
func withDefaults(q source.Question, answer json.RawMessage) json.RawMessage {
	if q.Method != source.MethodElicit {
		return answer
	}
	var form struct {
		Schema struct {
			Properties json.RawMessage `json:"properties"`
		} `json:"requestedSchema"`
	}
	if json.Unmarshal(q.Params, &form) != nil {
		return answer
	}
	given, err := mcp.ReadObject(answer)
	if err != nil || string(given.Get("action")) != `"accept"` {
		return answer
	}
	content, err := mcp.ReadObject([]byte(cmp.Or(string(given.Get("content")), "{}")))
	fields, fieldsErr := jsonx.Members(form.Schema.Properties)
	if err != nil || fieldsErr != nil {
		return answer
	}
	complete := true
	for _, f := range fields {
		var field struct {
			Default json.RawMessage `json:"default"`
		}
		if json.Unmarshal(f.Value, &field) == nil && len(field.Default) > 0 && content.Get(f.Name) == nil {
			content.Set(f.Name, field.Default)
			complete = false
		}
	}
	if complete {
		return answer
	}
	given.Set("content", content.JSON())
	return given.JSON()
}

// answerQuestion answers a question that a server of an older revision sends as a separate
// request. If the question does not name its call and several calls run, asked
// returns an error, because the question may reveal another caller's data.
func (s *Source) answerQuestion(ctx context.Context, l *link, owner any, asked mcp.Question) (json.RawMessage, error) {
	method := asked.Method
	c, _ := owner.(*call)
	if c == nil && method != source.MethodRoots {
		c = s.calls.onlyCall(l)
	}
	if c == nil {
		return nil, fmt.Errorf("%s does not name the call that it belongs to", method)
	}
	if !c.asker().Can(method) {
		c.unsupported.Store(&method)
		return nil, source.Unanswerable(method)
	}
	q := source.Question{Method: method, Params: asked.Params, Source: s.o.Namespace, Until: ctx, Progress: asked.Progress}
	answer, err := c.gather(ctx, q)
	if refusal := (*source.Refusal)(nil); errors.As(err, &refusal) {
		return nil, &mcp.Error{Code: refusal.Code, Message: refusal.Message, Data: refusal.Data, Sent: refusal.Sent}
	}
	if err != nil {
		return nil, err
	}
	return withDefaults(q, answer), nil
}

// gatherTime is how long a question of an older server waits for further
// questions. A modern client answers in rounds, and one round for all questions is
// better than one for each.
const gatherTime = 30 * time.Millisecond

// questions is a group of questions that are asked together.
type questions struct {
	all     map[string]source.Question
	cancel  context.CancelFunc // ends the asking; set when it begins
	done    chan struct{}
	answers map[string]json.RawMessage
	err     error
}

// close returns when the questions of a call that has ended are no longer asked. The server may
// have withdrawn all of them; then they end by themselves, with its reason.
func (qs *questions) close(ctx context.Context) {
	for _, q := range qs.all {
		if q.Until == nil || q.Until.Err() == nil {
			qs.cancel()
		}
	}
	select {
	case <-qs.done:
	case <-ctx.Done():
	}
}

// gather asks a question together with those that arrive at the same time, and
// waits for its answer.
func (c *call) gather(ctx context.Context, q source.Question) (json.RawMessage, error) {
	// A call may ask several questions in sequence.
	key := "q" + strconv.FormatInt(c.questionCount.Add(1), 10)
	c.mu.Lock()
	qs := c.gathering
	if qs == nil {
		qs = &questions{all: map[string]source.Question{}, done: make(chan struct{})}
		c.gathering = qs
		time.AfterFunc(gatherTime, func() {
			defer close(qs.done)
			c.mu.Lock()
			c.gathering = nil
			if c.ended {
				qs.err = errors.New("the call has ended")
				c.mu.Unlock()
				return
			}
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			qs.cancel = cancel
			c.asked = append(c.asked, qs)
			c.mu.Unlock()
			qs.answers, qs.err = c.askCaller(ctx, qs.all)
		})
	}
	qs.all[key] = q
	c.mu.Unlock()
	select {
	case <-qs.done:
		return qs.answers[key], qs.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
