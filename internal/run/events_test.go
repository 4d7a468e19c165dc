package run_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/source"
)

func TestASlowSubscriberLosesWhatIsCountedAndNoBeginningQuestionOrEnd(t *testing.T) {
	t.Parallel()
	const queue, sent = 1024, 1500
	b := newBench(t)
	b.add(tool("inner:it"), value(`1`))
	b.add(tool("loud:it"), func(ctx context.Context, req *source.Request) (*source.Output, error) {
		for i := range sent {
			req.Emit(toolroom.Event{Kind: toolroom.EventProgress, Progress: &toolroom.Progress{Done: float64(i)}})
		}
		req.Emit(toolroom.Event{Kind: toolroom.EventApproval, Approval: &toolroom.ApprovalNotice{ID: "apr_1"}})
		return &source.Output{}, b.Run(ctx, toolroom.Call{Tool: "inner:it"}).Err()
	})
	all := b.Bus.Subscribe(nil)
	defer all.Close()
	none := b.Bus.Subscribe(func(*toolroom.Event) bool { return false })
	defer none.Close()
	if r := b.Run(t.Context(), toolroom.Call{Tool: "loud:it"}); !r.OK() {
		t.Fatal(r.Error)
	}
	events, dropped, err := all.Next(t.Context())
	if err != nil || dropped != sent-(queue-1) || len(events) != queue+4 {
		t.Fatalf("%d events, %d lost, %v", len(events), dropped, err)
	}
	var kinds []toolroom.EventKind
	for _, e := range append(events[:1:1], events[queue:]...) {
		kinds = append(kinds, e.Kind)
	}
	want := []toolroom.EventKind{toolroom.EventCalled, toolroom.EventApproval, toolroom.EventCalled, toolroom.EventDone, toolroom.EventDone}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Error(diff)
	}
	if last := events[queue-1].Progress; last == nil || last.Done != queue-2 {
		t.Errorf("the last progress is %+v", last)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, s := range map[string]*run.Subscription{"read": all, "empty": none} {
		if events, dropped, err := s.Next(gone); !errors.Is(err, context.Canceled) || len(events) != 0 || dropped != 0 {
			t.Errorf("%s: %d events, %d lost, %v", name, len(events), dropped, err)
		}
	}
	all.Close()
	none.Close()
	none.Close() // which is allowed
	if r := b.Run(t.Context(), toolroom.Call{Tool: "inner:it"}); !r.OK() {
		t.Error(r.Error)
	}
	if events, _, err := all.Next(gone); err == nil {
		t.Errorf("after Close: %v", events)
	}
}

func TestChunksThatCouldBeginASecretComeWithTheNextOrAtTheEnd(t *testing.T) {
	t.Parallel()
	var clock ticking
	b := newBench(t, func(o *run.Options) { o.Secrets, o.Now = knowing("correct-horse-battery"), clock.now })
	b.add(tool("talk:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		for _, text := range []string{"one", "two correct-", "horse-", "race", "and correct"} {
			clock.pass(time.Second)
			data, err := json.Marshal(text)
			if err != nil {
				return nil, err
			}
			req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: data})
		}
		return &source.Output{}, nil
	})
	began := clock.now()
	type line struct {
		At   time.Duration
		Kind toolroom.EventKind
		Text string
	}
	var got []line
	r := b.Run(run.WithSink(t.Context(), func(e toolroom.Event) {
		got = append(got, line{e.Time.Sub(began) / time.Second, e.Kind, string(e.Chunk)})
		if e.Tool != "talk:it" || e.Call == "" {
			t.Errorf("%+v", e)
		}
	}), toolroom.Call{Tool: "talk:it"})
	want := []line{
		{0, toolroom.EventCalled, ""},
		{1, toolroom.EventChunk, `"one"`},
		{2, toolroom.EventChunk, `"two correct-"`},
		{3, toolroom.EventChunk, `"horse-"`},
		{4, toolroom.EventChunk, `"race"`},
		{5, toolroom.EventChunk, `"and correct"`},
		{5, toolroom.EventDone, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" || !r.OK() {
		t.Errorf("%v (-want +got):\n%s", r.Error, diff)
	}
}

func TestAToolThatOutlivesItsCallIsNotHeardAnyMore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	release, done := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.add(tool("slow:it"), func(_ context.Context, req *source.Request) (*source.Output, error) {
		defer close(done)
		cancel() // only now: a call that ends before its tool begins leaves nothing behind
		<-release
		req.Emit(toolroom.Event{Kind: toolroom.EventLog, Log: &toolroom.Log{Message: "still here"}})
		return &source.Output{}, nil
	})
	var kinds []toolroom.EventKind
	sink := func(e toolroom.Event) { kinds = append(kinds, e.Kind) }
	r := b.Run(run.WithSink(ctx, sink), toolroom.Call{Tool: "slow:it"})
	close(release)
	<-done
	if diff := cmp.Diff([]toolroom.EventKind{toolroom.EventCalled, toolroom.EventError}, kinds); diff != "" || r.Status != toolroom.StatusCancelled {
		t.Errorf("%s: %s", r.Status, diff)
	}
	if logs := b.receipts.last().Logs; len(logs) != 0 {
		t.Errorf("its receipt has %+v", logs)
	}
}
