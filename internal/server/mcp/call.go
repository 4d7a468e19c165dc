package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/schema"
)

// call answers tools/call, for tools of the catalog and for those of this server.
func (s *Server) call(r *request) (*result, error) {
	if s.closesStreamEarly(r.Version) {
		// The client reconnects for the rest of the stream.
		defer time.AfterFunc(s.o.PollAfter, func() { r.Release(pollRetry) }).Stop()
	}
	if tool, ok := s.meta[r.Name]; ok && slices.Contains(s.expose.forCaller(r.who).ownNames(), r.Name) {
		return tool.handle(r)
	}
	if namespace, ok := s.sourceSearchNamespace(r.who, r.Name); ok {
		return s.searchSource(r, namespace)
	}
	return s.runTool(r, r.Name, r.Arguments)
}

// pollRetry is the time, in milliseconds, after which a client should reconnect for the
// rest of a closed stream.
const pollRetry = 1000

// closesStreamEarly reports whether the server may close the stream of a call before the
// call ends. Then the response of each call is a stream from the start.
func (s *Server) closesStreamEarly(version string) bool {
	return s.o.PollAfter > 0 && version == lastLegacy
}

// environment returns the environment that the client has chosen.
func (s *Server) environment(ctx context.Context) string {
	if s.o.Environment == nil {
		return ""
	}
	return s.o.Environment(ctx)
}

// runTool calls a tool for a request and converts the result to a response.
func (s *Server) runTool(r *request, tool string, args json.RawMessage) (*result, error) {
	r.tool.resolve(r.ctx, s.o.Runner)
	e := r.tool.entry
	call := toolroom.Call{
		Tool:           tool,
		Arguments:      args,
		Identity:       r.who,
		Surface:        "mcp",
		Session:        r.session(),
		Environment:    s.environment(r.ctx),
		IdempotencyKey: r.key,
		Meta:           r.Meta,
		More:           r.Other,
	}
	if e != nil && e.Tool.Task != "" && r.Modern() && s.o.Worker != nil {
		switch {
		case r.can.tasks:
			return s.submitTask(r, e, call)
		case e.Tool.Task == toolroom.TaskRequired:
			return nil, tasksUnsupported()
		}
	}
	return s.serveRounds(r, func(ctx context.Context, c client) (*result, error) {
		res := s.runWithTasks(ctx, c, call, e)
		if job, err := s.suspendedJob(ctx, r, res); err != nil {
			return nil, err
		} else if job != nil {
			return taskCreated(job), nil
		}
		var listed *schema.Schema
		if tool == r.Name {
			res = s.withClientNames(r, res)
			if e != nil {
				listed = s.listedSchema(e)
			}
		}
		return convertResult(res, r.Version, listed)
	})
}

// withClientNames replaces the suggestions in a tool_not_found error by the names under
// which clients list those tools.
func (s *Server) withClientNames(req *request, r *toolroom.Result) *toolroom.Result {
	if r.Error == nil || r.Error.Code != toolroom.CodeToolNotFound {
		return r
	}
	var names []string
	if own, ok := nearest.Of(req.Name, s.expose.forCaller(req.who).ownNames()); ok {
		names = append(names, own) // a tool of this server, which the catalog does not have
	}
	for _, id := range stringsOf(r.Error.Details["nearest"]) {
		if e, err := s.o.Runner.Catalog.Resolve(id, nil); err == nil {
			names = append(names, s.listedName(e))
		}
	}
	if len(names) == 0 {
		return r
	}
	named, failed := *r, *r.Error
	failed.Hint, failed.Details = "did you mean "+strings.Join(names, ", ")+"?", map[string]any{"nearest": names}
	named.Error = &failed
	return &named
}

// stringsOf returns list as strings. In the details of a redacted error it is a []any.
func stringsOf(list any) []string {
	if texts, ok := list.([]string); ok {
		return texts
	}
	items, _ := list.([]any)
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i], _ = item.(string)
	}
	return texts
}
