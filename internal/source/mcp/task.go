package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// taskExtension lets a server answer a call with a task (SEP-2663), which the client
// polls until it has ended.
const taskExtension = "io.modelcontextprotocol/tasks"

// The bounds and the default of the interval at which a task is polled.
const (
	minPollInterval     = 50 * time.Millisecond
	defaultPollInterval = time.Second
	maxPollInterval     = time.Minute
)

// task is a task as tools/call and tasks/get return it.
type task struct {
	ID        string                     `json:"taskId"`
	Status    string                     `json:"status"`
	Message   string                     `json:"statusMessage"`
	Interval  float64                    `json:"pollIntervalMs"`
	Questions map[string]json.RawMessage `json:"inputRequests"`
	Result    json.RawMessage            `json:"result"`
	Error     *mcp.Error                 `json:"error"`
}

func (t *task) pollInterval() time.Duration {
	if t.Interval <= 0 {
		return defaultPollInterval
	}
	ms := min(t.Interval, float64(maxPollInterval/time.Millisecond))
	return max(time.Duration(ms)*time.Millisecond, minPollInterval)
}

// pollTask polls a task until it has ended and returns its result. If ctx ends, pollTask cancels
// the task, unless another process continues the call.
func (s *Source) pollTask(ctx context.Context, up *upstream, c *call, raw json.RawMessage) (json.RawMessage, error) {
	t := &task{}
	if err := json.Unmarshal(raw, t); err != nil || t.ID == "" {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s answered with a task that has no id", s.o.Namespace)
	}
	id, message := t.ID, ""
	defer func() {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), source.ErrHandedOver) {
			up.cancelTask(id)
		}
	}()
	answered := map[string]json.RawMessage{}
	noted := string(raw)
	for {
		if t.Message != message {
			message = t.Message
			c.queueEvent(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Message: message}})
		}
		switch t.Status {
		case "completed":
			return t.Result, nil
		case "failed":
			if t.Error == nil {
				return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the task of the MCP server %s failed without an error", s.o.Namespace)
			}
			return nil, t.Error
		case "cancelled":
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the MCP server %s cancelled its task", s.o.Namespace)
		case "working":
		case "input_required":
			if err := s.answerTask(ctx, up, c, t, answered); err != nil {
				return nil, err
			}
		default:
			return nil, toolroom.Errorf(toolroom.CodeUpstreamError, "the task of the MCP server %s has the unknown status %q", s.o.Namespace, t.Status)
		}
		select {
		case <-time.After(t.pollInterval()):
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
		if string(raw) != noted {
			noted = string(raw)
			if err := c.asker().RecordTask(ctx, taskState(raw, id)); err != nil {
				return nil, err
			}
		}
	}
}

// taskState returns the server's state of a task without its result, error and
// questions, which belong to the call.
func taskState(raw json.RawMessage, id string) json.RawMessage {
	fields, err := mcp.Fields(raw, "taskId", "result", "error", "inputRequests")
	if err != nil {
		return nil
	}
	state := mcp.Object{}
	for _, f := range append([]mcp.Field{mcp.String("taskId", id)}, fields...) {
		state.Set(f.Name, f.Value)
	}
	return state.JSON()
}

// reportTask tells the caller that the call has become a task, if it supports tasks. From then on
// questions go to the asker that it returns.
func (c *call) reportTask(ctx context.Context, up *upstream, raw json.RawMessage) error {
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
	c.mu.Lock()
	defer c.mu.Unlock()
	c.currentAsker = ask
	return nil
}

// answerTask answers the new questions of a task. A task returns its questions until it has read
// the answers, so answerTask skips those in answered.
func (s *Source) answerTask(ctx context.Context, up *upstream, c *call, t *task, answered map[string]json.RawMessage) error {
	maps.DeleteFunc(t.Questions, func(key string, q json.RawMessage) bool { return string(answered[key]) == string(q) })
	maps.Copy(answered, t.Questions)
	answers, err := s.answerRound(ctx, c, t.Questions, nil)
	if err != nil || answers == nil {
		if err != nil && ctx.Err() == nil {
			up.cancelTask(t.ID)
		}
		return err
	}
	r := taskRequest("tasks/update", t.ID)
	r.Params = append(r.Params, mcp.Field{Name: "inputResponses", Value: answers})
	_, err = up.call(ctx, r)
	return err
}

func taskRequest(method, id string) *mcp.Request {
	return &mcp.Request{Method: method, Name: id, Params: []mcp.Field{mcp.String("taskId", id)}}
}

// cancelTask asks the server to cancel a task, without waiting.
func (up *upstream) cancelTask(id string) {
	up.session.CallInBackground(taskRequest("tasks/cancel", id))
}
