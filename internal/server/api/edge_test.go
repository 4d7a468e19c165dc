package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/server/api"
	"github.com/toolroom/toolroom/source"
)

func TestACancelledCallThatNeverRanLeavesTheNumberOfRunningCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	started := make(chan struct{}, run.DefaultParallel)
	b.add("hang:on", func(ctx context.Context, _ *source.Request) (*source.Output, error) {
		started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	for range run.DefaultParallel {
		b.post("/tools/hang:on/call?async=true", `{}`)
	}
	for range run.DefaultParallel {
		<-started
	}
	queued := b.post("/tools/hang:on/call?async=true", `{}`).header.Get("Location")
	if r := b.as("", http.MethodPost, queued+"/cancel", ""); r.status != http.StatusAccepted {
		t.Fatal(r.status, r.body)
	}
	want := fmt.Sprintf("toolroom_calls_running %d\n", run.DefaultParallel)
	if r := b.as("", http.MethodGet, "/metrics", ""); !strings.Contains(r.body, want) {
		_, rest, _ := strings.Cut(r.body, "\ntoolroom_calls_running ")
		n, _, _ := strings.Cut(rest, "\n")
		t.Errorf("%s calls run, want %d", n, run.DefaultParallel)
	}
}

func TestAStepThatIsNoDurationIsTheCallersMistake(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.get("/metrics/timeseries?step=soon")
	if r.status != http.StatusUnprocessableEntity || r.code(t) != toolroom.CodeInvalidArguments || !strings.Contains(r.body, "soon") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// slowStore takes longer than its caller waits.
type slowStore struct{ *memory }

func (slowStore) Receipts(context.Context, toolroom.ReceiptQuery) ([]*toolroom.Receipt, error) {
	return nil, fmt.Errorf("read receipts: %w", context.DeadlineExceeded)
}

func TestWhatTookTooLongInsideIsNotBlamedOnTheRequest(t *testing.T) {
	t.Parallel()
	b := newBench(t, func(o *api.Options, _ *run.Options) { o.Receipts = slowStore{newMemory()} })
	if r := b.get("/calls"); r.code(t) != toolroom.CodeTimeout || r.status == http.StatusRequestTimeout || !strings.Contains(r.body, "read receipts") {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// seenFirst holds back the end of a call until somebody has read its receipt.
type seenFirst struct {
	*memory
	seen *sync.Once
	wait chan struct{}
}

func (s seenFirst) Append(ctx context.Context, r *receipt.Draft) error {
	err := s.memory.Append(ctx, r)
	<-s.wait
	time.Sleep(20 * time.Millisecond) // the reader goes on
	return err
}

func (s seenFirst) Receipt(ctx context.Context, id string) (*toolroom.Receipt, error) {
	r, err := s.memory.Receipt(ctx, id)
	if err == nil {
		s.seen.Do(func() { close(s.wait) })
	}
	return r, err
}

// The receipt is stored a moment before the last event is sent.
func TestAFollowerGetsTheLastEventsOfACallWithItsValue(t *testing.T) {
	t.Parallel()
	slow := seenFirst{memory: newMemory(), seen: &sync.Once{}, wait: make(chan struct{})}
	b := newBench(t, func(a *api.Options, r *run.Options) { a.Receipts, r.Receipts = slow, slow })
	followed := make(chan struct{})
	b.add("talk:it", func(_ context.Context, req *source.Request) (*source.Output, error) {
		<-followed
		req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: json.RawMessage("1")})
		return &source.Output{Value: json.RawMessage("2")}, nil
	})
	call := b.open(t.Context(), "alice", http.MethodPost, "/api/v1/tools/talk:it/call?stream=true", `{}`)
	first := events(t, call.Body, func(toolroom.Event) bool { return true })[0]
	res := b.open(t.Context(), "alice", http.MethodGet, "/api/v1/calls/"+first.Call+"/events", "")
	close(followed)
	list := events(t, res.Body, nil)
	if last := list[len(list)-1]; kinds(list) != "chunk done" || string(last.Result.Value) != "2" {
		t.Errorf("the events are %s, the result %+v", kinds(list), last.Result)
	}
}
