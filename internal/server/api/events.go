package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
)

// endPoll is how often the store is asked whether a call has ended whose events
// do not come here because it runs in another process.
const endPoll = time.Second

type eventsInput struct {
	Exchange
	Tool string   `query:"tool" doc:"canonical id"`
	Kind []string `query:"kind" enum:"called,progress,chunk,log,notice,approval,done,error"`
}

type callEventsInput struct {
	Exchange
	ID string `path:"id"`
}

func (s *Server) routeEvents() {
	responses := func() map[string]*huma.Response {
		return map[string]*huma.Response{"200": {Description: "Events", Content: map[string]*huma.MediaType{
			eventStream: {Schema: &huma.Schema{Type: huma.TypeString, Description: "events of calls; an event lost tells how many others did not reach a slow reader"}},
		}}}
	}
	register(s, huma.Operation{
		OperationID: "follow-calls", Method: http.MethodGet, Path: "/events", Tags: []string{"events"},
		Summary: "Follow all calls that the caller may see", Responses: responses(),
	}, s.followCalls)
	register(s, huma.Operation{
		OperationID: "follow-call", Method: http.MethodGet, Path: "/calls/{id}/events", Tags: []string{"events"},
		Summary: "Follow one call to its end", Responses: responses(),
	}, s.followCall)
}

func (s *Server) followCalls(ctx context.Context, in *eventsInput) (*raw, error) {
	who := auth.Identity(ctx)
	if !auth.IsOperator(who) && s.o.Owner == nil {
		return nil, unsupported("only operators can follow all calls here").
			WithHint("follow one of yours: GET %s/calls/ID/events", Prefix)
	}
	visible := func(e *toolroom.Event) bool {
		return (in.Tool == "" || e.Tool == in.Tool) &&
			(len(in.Kind) == 0 || slices.Contains(in.Kind, string(e.Kind))) &&
			(auth.IsOperator(who) || s.o.Owner(e) == who.Key())
	}
	return &raw{Body: func(huma.Context) {
		sub := s.o.Runner.Bus.Subscribe(visible)
		defer sub.Close()
		out := openStream(in.w, s.o.KeepAlive)
		defer out.close()
		for {
			if _, err := forward(ctx, sub, out); err != nil {
				return
			}
		}
	}}, nil
}

// forward sends what has come, and reports whether the last of it was the end
// of a call.
func forward(ctx context.Context, sub *run.Subscription, out *stream) (final bool, err error) {
	events, dropped, err := sub.Next(ctx)
	if err != nil {
		return false, err
	}
	if dropped > 0 {
		if err := out.send("lost", map[string]int{"events": dropped}); err != nil {
			return false, err
		}
	}
	for _, e := range events {
		if err := out.event(&e); err != nil {
			return false, err
		}
		final = e.Final()
	}
	return final, nil
}

func (s *Server) followCall(ctx context.Context, in *callEventsInput) (*raw, error) {
	// Subscribed before the first look, no end can fall in between.
	sub := s.o.Runner.Bus.Subscribe(func(e *toolroom.Event) bool { return e.Call == in.ID })
	record, err := s.record(ctx, in.ID)
	if err != nil {
		sub.Close()
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		defer sub.Close()
		out := openStream(in.w, s.o.KeepAlive)
		defer out.close()
		for record.State != run.JobDone {
			soon, cancel := context.WithTimeout(ctx, endPoll)
			final, err := forward(soon, sub, out)
			cancel()
			if final || err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
				return
			}
			// A call that has just ended may be in no list for a moment; its last
			// event comes through the subscription then.
			if now, err := s.record(ctx, in.ID); err == nil {
				record = now
			}
		}
		out.event(record.end())
	}}, nil
}

// end is the last event of a call that has ended. Of one that was not
// asynchronous only the receipt is left, which does not have the value.
func (r *CallRecord) end() *toolroom.Event {
	result := r.Result
	if result == nil {
		result = &toolroom.Result{
			Call: r.ID, Tool: r.Receipt.Tool, Status: r.Receipt.Status,
			Effects: r.Receipt.Effects, Usage: r.Receipt.Usage, Error: r.Receipt.Error,
		}
	}
	e := &toolroom.Event{Kind: toolroom.EventDone, Call: r.ID, Tool: result.Tool, Result: result}
	if result.Error != nil {
		e.Kind = toolroom.EventError
	}
	if r.Receipt != nil {
		e.Parent, e.Time = r.Receipt.Parent, r.Receipt.Started.Add(result.Usage.Queue+result.Usage.Wait+result.Usage.Run)
	}
	return e
}
