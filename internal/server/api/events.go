package api

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/auth"
)

const (
	// endPoll is the interval at which the store is polled for the end of a call. A call
	// that runs in another process sends no events here.
	endPoll = time.Second
	// lastEventTimeout is how long to wait, once the receipt of a call is stored, for the last
	// event of the call: the event has the value, and the receipt does not.
	lastEventTimeout = endPoll / 4
)

type eventsInput struct {
	Exchange
	Tool string   `query:"tool" doc:"canonical id"`
	Kind []string `query:"kind" enum:"called,progress,chunk,log,notice,approval,done,error"`
}

func (s *Server) followCalls(ctx context.Context, in *eventsInput) (*raw, error) {
	who := auth.Identity(ctx)
	if !auth.IsOperator(who) && s.o.Owner == nil {
		return nil, unsupportedError("only operators may follow all calls on this server").
			WithHint("follow a call of yours: GET %s/calls/ID/events", Prefix)
	}
	visible := func(e *toolroom.Event) bool {
		return (in.Tool == "" || e.Tool == in.Tool) &&
			(len(in.Kind) == 0 || slices.Contains(in.Kind, string(e.Kind))) &&
			(auth.IsOperator(who) || identity.Reaches(who, s.o.Owner(e)))
	}
	return &raw{Body: func(huma.Context) {
		ctx, stop := auth.WhileValid(ctx, s.o.KeepAlive)
		defer stop()
		sub := s.o.Runner.Bus.Subscribe(visible)
		defer sub.Close()
		out := openStream(in.w, s.o.KeepAlive)
		defer out.close()
		for {
			if _, err := forwardEvents(ctx, sub, out); err != nil {
				return
			}
		}
	}}, nil
}

// forwardEvents sends the events that have arrived, and reports whether the last one
// ended a call.
func forwardEvents(ctx context.Context, sub *run.Subscription, out *stream) (final bool, err error) {
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

func (s *Server) followCall(ctx context.Context, in *itemInput) (*raw, error) {
	// Subscribe before reading the record, so that no end is missed in between.
	id := in.ID
	subscribe := func() *run.Subscription {
		return s.o.Runner.Bus.Subscribe(func(e *toolroom.Event) bool { return e.Call == id })
	}
	sub := subscribe()
	record, err := s.record(ctx, id)
	if err == nil && record.ID != id { // the beginning of an id
		sub.Close()
		id = record.ID
		sub = subscribe()
		record, err = s.record(ctx, id)
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return &raw{Body: func(huma.Context) {
		ctx, stop := auth.WhileValid(ctx, s.o.KeepAlive)
		defer stop()
		defer sub.Close()
		out := openStream(in.w, s.o.KeepAlive)
		defer out.close()
		wait := time.Duration(0)
		for record.State != toolroom.JobDone {
			wait = lastEventTimeout
			soon, cancel := context.WithTimeout(ctx, endPoll)
			final, err := forwardEvents(soon, sub, out)
			cancel()
			if final || err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
				return
			}
			// A call that has just ended may have no record for a moment. Its last
			// event then arrives through the subscription.
			if now, err := s.record(ctx, id); err == nil {
				record = now
			}
		}
		if record.Result != nil {
			wait = 0
		}
		// Events wait here, and the last one is sent after the receipt is stored.
		soon, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		for {
			final, err := forwardEvents(soon, sub, out)
			if final || err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
				return
			}
			if err != nil {
				break
			}
		}
		out.event(record.end())
	}}, nil
}

// end returns the last event of a call that has ended. If the call did not run in the
// background, only its receipt remains, which does not have the value.
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
