package mcp

import (
	"context"
	"encoding/json"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/code"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

// performTask is perform for a client that may know tasks: where the server
// behind the tool answers with one, so does this one, and the call goes on as a
// job of the room.
func (s *Server) performTask(ctx context.Context, a asker, live func() *request, call toolroom.Call, e *catalog.Entry) *toolroom.Result {
	d, ok := a.(*roundCall)
	if !ok || !d.tasks {
		return s.perform(ctx, a, live, call, e)
	}
	ctx = run.WithTasks(ctx, func(ctx context.Context, call toolroom.Call, state json.RawMessage) (source.Asker, error) {
		if err := s.o.Worker.StartTask(ctx, d.Suspension, call, state, d.end); err != nil {
			return nil, err
		}
		d.task <- created(d.Job())
		return d.Suspension, nil
	})
	result := s.perform(ctx, a, live, call, e)
	if d.Job() != nil {
		d.Finish(result)
	}
	return result
}

// waits is the job of a program that waits for a person, where the client takes a
// task for it; else it is nil.
func (s *Server) waits(ctx context.Context, x *request, r *toolroom.Result) (*run.Job, error) {
	if !x.can.tasks || toolroom.CodeOf(r.Err()) != toolroom.CodeApprovalRequired {
		return nil, nil
	}
	if r.Error.Run == "" {
		return nil, nil
	}
	return s.jobOf(ctx, x.who, r.Error.Run)
}

// takesTask reports whether a call that waits for a person is to give its client a
// task at once: a program can, since it goes on without the request.
func takesTask(a asker, e *catalog.Entry) bool {
	d, ok := a.(*roundCall)
	return ok && d.tasks && e != nil && e.ID == code.Tool
}
