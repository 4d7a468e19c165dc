package mcpsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/source/mcp/wire"
	"github.com/toolroom/toolroom/source"
)

// taskExtension lets a server answer a call with a task (SEP-2663), which is
// asked for until it has ended.
const taskExtension = "io.modelcontextprotocol/tasks"

// Bounds of the pause between two looks at a task, and the pause of a server
// that names none.
const (
	shortestLook = 50 * time.Millisecond
	usualLook    = time.Second
	longestLook  = time.Minute
)

// task is a task as tools/call and tasks/get show it.
type task struct {
	ID        string                     `json:"taskId"`
	Status    string                     `json:"status"`
	Message   string                     `json:"statusMessage"`
	Interval  float64                    `json:"pollIntervalMs"`
	Questions map[string]json.RawMessage `json:"inputRequests"`
	Result    json.RawMessage            `json:"result"`
	Error     *wire.Error                `json:"error"`
}

func (t *task) pause() time.Duration {
	if t.Interval <= 0 {
		return usualLook
	}
	ms := min(t.Interval, float64(longestLook/time.Millisecond))
	return max(time.Duration(ms)*time.Millisecond, shortestLook)
}

// await looks at a task until it has ended, and gives its result. When ctx
// ends, the task is cancelled.
func (s *Source) await(ctx context.Context, up *upstream, c *call, raw json.RawMessage) (json.RawMessage, error) {
	t := &task{}
	if err := json.Unmarshal(raw, t); err != nil || t.ID == "" {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s answered with a task that has no id", s.o.Namespace)
	}
	id, message := t.ID, ""
	defer func() {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), source.ErrLeft) {
			up.cancelTask(id)
		}
	}()
	answered := map[string]json.RawMessage{}
	noted := string(raw)
	for {
		if t.Message != message {
			message = t.Message
			c.tell(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Message: message}})
		}
		switch t.Status {
		case "completed":
			return t.Result, nil
		case "failed":
			if t.Error == nil {
				return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the task of the MCP server %s failed and does not say why", s.o.Namespace)
			}
			return nil, t.Error
		case "cancelled":
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s has cancelled its task", s.o.Namespace)
		case "working":
		case "input_required":
			if err := s.update(ctx, up, c, t, answered); err != nil {
				return nil, err
			}
		default:
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the task of the MCP server %s has the status %q, which is not known here", s.o.Namespace, t.Status)
		}
		select {
		case <-time.After(t.pause()):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		raw, err := up.call(ctx, taskRequest("tasks/get", id))
		if err != nil {
			return nil, err
		}
		t = &task{ID: id}
		if err := json.Unmarshal(raw, t); err != nil {
			return nil, fmt.Errorf("its task cannot be read: %w", err)
		}
		if noter, ok := c.ask.(source.Noter); ok && string(raw) != noted {
			noted = string(raw)
			if err := noter.Note(ctx, stateOf(raw, id)); err != nil {
				return nil, err
			}
		}
	}
}

// stateOf is what a server says of a task, without its end: that is the call's.
func stateOf(raw json.RawMessage, id string) json.RawMessage {
	members, err := jsonx.Members(raw)
	if err != nil {
		return nil
	}
	kept := []jsonx.Member{{Name: "taskId", Value: wire.String("", id).Value}}
	for _, m := range members {
		switch m.Name {
		case "taskId", "result", "error", "inputRequests":
		default:
			kept = append(kept, m)
		}
	}
	return object(kept)
}

// becomesTask tells the client of a call that its answer is a task, where the
// client knows such.
func (c *call) becomesTask(ctx context.Context, up *upstream, raw json.RawMessage) error {
	if c.req.Task == nil {
		return nil
	}
	ask, err := c.req.Task(ctx, raw)
	if err != nil {
		if t := (&task{}); json.Unmarshal(raw, t) == nil {
			up.cancelTask(t.ID)
		}
		return err
	}
	c.ask = ask
	return nil
}

// update answers what a task asks and was not asked before: it shows its
// questions until it has read the answers.
func (s *Source) update(ctx context.Context, up *upstream, c *call, t *task, answered map[string]json.RawMessage) error {
	maps.DeleteFunc(t.Questions, func(key string, q json.RawMessage) bool { return string(answered[key]) == string(q) })
	maps.Copy(answered, t.Questions)
	answers, err := s.answer(ctx, c, t.Questions, nil)
	if err != nil || answers == nil {
		if err != nil && ctx.Err() == nil {
			up.cancelTask(t.ID)
		}
		return err
	}
	r := taskRequest("tasks/update", t.ID)
	r.Params = append(r.Params, wire.Field{Name: "inputResponses", Value: answers})
	_, err = up.call(ctx, r)
	return err
}

func taskRequest(method, id string) *wire.Request {
	return &wire.Request{Method: method, Name: id, Params: []wire.Field{wire.String("taskId", id)}}
}

// cancelTask tells the server that nobody waits for a task any more.
func (up *upstream) cancelTask(id string) { up.session.Tell(taskRequest("tasks/cancel", id)) }
