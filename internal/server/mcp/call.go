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

// call answers tools/call: it runs a tool, or one of the search tools.
func (s *Server) call(r *request) (*result, error) {
	if s.polls(r.Version) {
		// The client comes back for the rest.
		defer time.AfterFunc(s.o.PollAfter, func() { r.Release(pollRetry) }).Stop()
	}
	if tool, ok := s.meta[r.Name]; ok && slices.Contains(s.expose.of(r.who).ownNames(), r.Name) {
		return tool.handle(r)
	}
	if namespace, ok := s.sourceSearched(r.who, r.Name); ok {
		return s.searchSource(r, namespace)
	}
	return s.run(r, r.Name, r.Arguments)
}

// pollRetry is when a client should come back for the rest of a closed stream, in
// milliseconds.
const pollRetry = 1000

// polls reports whether the stream of a client's call may be closed before the
// call ends. Each of its calls gets a stream then, from its start.
func (s *Server) polls(version string) bool { return s.o.PollAfter > 0 && version == lastLegacy }

// environment returns the environment that the client has chosen.
func (s *Server) environment(ctx context.Context) string {
	if s.o.Environment == nil {
		return ""
	}
	return s.o.Environment(ctx)
}

// run makes a request a call and the result an answer.
func (s *Server) run(r *request, tool string, args json.RawMessage) (*result, error) {
	r.tool.find(r.ctx, s.o.Runner)
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
			return s.submit(r, e, call)
		case e.Tool.Task == toolroom.TaskRequired:
			return nil, missingTasks()
		}
	}
	return s.converse(r, func(ctx context.Context, c client) (*result, error) {
		res := s.performTask(ctx, c, call, e)
		if job, err := s.waits(ctx, r, res); err != nil {
			return nil, err
		} else if job != nil {
			return created(job), nil
		}
		var told *schema.Schema
		if tool == r.Name {
			res = s.withClientNames(r, res)
			if e != nil {
				told = s.told(e)
			}
		}
		return answer(res, r.Version, told)
	})
}

// withClientNames names the nearest tools of a tool that is not there as clients list them.
func (s *Server) withClientNames(req *request, r *toolroom.Result) *toolroom.Result {
	if r.Error == nil || r.Error.Code != toolroom.CodeToolNotFound {
		return r
	}
	var names []string
	if own, ok := nearest.Of(req.Name, s.expose.of(req.who).ownNames()); ok {
		names = append(names, own) // a tool of the server itself, which is in no catalogue
	}
	for _, id := range stringsOf(r.Error.Details["nearest"]) {
		if e, err := s.o.Runner.Catalog.Resolve(id, nil); err == nil {
			names = append(names, s.shownName(e))
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

// stringsOf returns a list of strings, which a redacted error has as a list of any.
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
