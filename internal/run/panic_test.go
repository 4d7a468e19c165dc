package run_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// The parts below panic at one place each.
type (
	panickingKeys      struct{ run.KeyStore }
	panickingKeyEnd    struct{ run.KeyStore }
	panickingArtifacts struct{}
	panickingReceipts  struct{ *receiptList }
)

func (panickingKeys) ClaimKey(context.Context, run.KeyRecord, time.Time) (run.KeyRecord, bool, error) {
	panic("claim")
}

func (panickingKeyEnd) FinishKey(context.Context, string, string, string, json.RawMessage) error {
	panic("finish")
}

func (panickingArtifacts) PutResult(context.Context, string, string, string, []byte, bool) (toolroom.Artifact, error) {
	panic("artifacts")
}

func (panickingReceipts) Intend(context.Context, *toolroom.Receipt, string) error { panic("intend") }

func TestAPanicInAnyPartOfThePipelineEndsTheCallWithAReceiptAndAnEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		configure func(o *run.Options, list *receiptList)
		ran, ok   bool
	}{
		"policy": {func(o *run.Options, _ *receiptList) {
			o.Policy = deciderFunc(func(r policy.Request) policy.Decision { panic("policy") })
		}, false, false},
		"keys":             {func(o *run.Options, _ *receiptList) { o.Keys = panickingKeys{o.Keys} }, false, false},
		"the end of a key": {func(o *run.Options, _ *receiptList) { o.Keys = panickingKeyEnd{o.Keys} }, true, true},
		"artifacts":        {func(o *run.Options, _ *receiptList) { o.Artifacts = panickingArtifacts{} }, true, false},
		"a promised receipt": {func(o *run.Options, list *receiptList) {
			o.Receipts, o.MustRecord = panickingReceipts{list}, func(*toolroom.Tool) bool { return true }
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := &receiptList{}
			var ran atomic.Int64
			b := newBench(t, func(o *run.Options) {
				o.Receipts, o.Keys = list, openStore(t, filepath.Join(t.TempDir(), "db"))
				c.configure(o, list)
			})
			b.add(tool("long:it"), func(context.Context, *source.Request) (*source.Output, error) {
				ran.Add(1)
				return &source.Output{Content: []toolroom.Content{toolroom.TextContent(strings.Repeat("x", 100_000))}}, nil
			})
			var last toolroom.Event
			for e := range b.Stream(t.Context(), toolroom.Call{Tool: "long:it", IdempotencyKey: "k"}) {
				last = e
			}
			if !last.Final() {
				t.Fatalf("the last event is %+v", last)
			}
			r, effects := last.Result, toolroom.EffectsNone
			if c.ran {
				effects = toolroom.EffectsDone
			}
			if r.OK() != c.ok || !c.ok && toolroom.CodeOf(r.Err()) != toolroom.CodeInternal || r.Effects != effects || ran.Load() > 0 != c.ran {
				t.Errorf("got %s, %v, effects %s, ran %d", r.Status, r.Error, r.Effects, ran.Load())
			}
			if !c.ok && r.Text() != "" {
				t.Errorf("%d bytes are shown", len(r.Text()))
			}
			if len(list.list) != 1 || list.last().ID != r.Call || list.last().Status != r.Status {
				t.Errorf("%d receipts", len(list.list))
			}
			if n := len(b.Batch(t.Context(), []toolroom.Call{{Tool: "long:it"}, {Tool: "long:it"}}, 0)); n != 2 {
				t.Errorf("a batch gave %d results", n)
			}
		})
	}
}

func TestASubscriberThatPanicsDisturbsNeitherTheCallNorOthers(t *testing.T) {
	t.Parallel()
	bus := &run.Bus{}
	b := newBench(t, func(o *run.Options) { o.Bus = bus })
	b.add(tool("a:it"), value(`1`))
	bad := bus.Subscribe(func(*toolroom.Event) bool { panic("filter") })
	defer bad.Close()
	good := bus.Subscribe(nil)
	defer good.Close()
	ctx := run.WithSink(t.Context(), func(toolroom.Event) { panic("sink") })
	if r := b.Run(ctx, toolroom.Call{Tool: "a:it"}); !r.OK() {
		t.Fatalf("got %v", r.Error)
	}
	if events, _, err := good.Next(t.Context()); err != nil || len(events) != 2 || events[1].Kind != toolroom.EventDone {
		t.Errorf("the other subscriber got %v, %v", events, err)
	}
	if b.receipts.last().Status != toolroom.StatusOK {
		t.Error("there is no receipt of the call")
	}
}

// unwritable cannot be written as JSON.
type unwritable struct{}

func (unwritable) MarshalJSON() ([]byte, error) { panic("unwritable") }

// panickingJobs cannot store the result of a call that worked.
type panickingJobs struct{ *sqlite.Store }

func (s panickingJobs) FinishJob(ctx context.Context, id string, fence int64, result *toolroom.Result, now time.Time) error {
	if result.OK() {
		panic("result")
	}
	return s.Store.FinishJob(ctx, id, fence, result, now)
}

func TestAJobThatPanicsIsFinishedAndNotBegunAgain(t *testing.T) {
	t.Parallel()
	long := &source.Output{Content: []toolroom.Content{toolroom.TextContent(strings.Repeat("x", 100_000))}}
	bad := &toolroom.Error{Code: toolroom.CodeConflict, Message: "no", Details: map[string]any{"bad": unwritable{}}}
	for name, c := range map[string]struct {
		configure func(o *run.Options, s *sqlite.Store)
		handler   func() (*source.Output, error)
	}{
		"the tool":                {nil, func() (*source.Output, error) { panic("tool") }},
		"a step":                  {func(o *run.Options, _ *sqlite.Store) { o.Artifacts = panickingArtifacts{} }, func() (*source.Output, error) { return long, nil }},
		"a store":                 {func(o *run.Options, s *sqlite.Store) { o.Jobs = panickingJobs{s} }, func() (*source.Output, error) { return long, nil }},
		"a detail":                {nil, func() (*source.Output, error) { return nil, bad }},
		"a value that is no JSON": {nil, func() (*source.Output, error) { return &source.Output{Value: json.RawMessage(`{"bad`)}, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openStore(t, filepath.Join(t.TempDir(), "db"))
			var ran atomic.Int64
			yes := true
			reader := tool("job:it")
			reader.Hints.ReadOnly = &yes
			start := func() *bench {
				b := newBench(t, func(o *run.Options) {
					o.Jobs, o.Keys = store, store
					if c.configure != nil {
						c.configure(o, store)
					}
				})
				b.add(reader, func(context.Context, *source.Request) (*source.Output, error) {
					ran.Add(1)
					return c.handler()
				})
				return b
			}
			job, err := start().Submit(t.Context(), toolroom.Call{Tool: "job:it"})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time is a restart
				ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
				run.NewWorker(start().Runner, run.WorkerOptions{Lease: 300 * time.Millisecond, Poll: 10 * time.Millisecond}).Run(ctx)
				cancel()
			}
			now, err := store.Job(t.Context(), job.ID)
			if err != nil || now.State != toolroom.JobDone || now.Result == nil || now.Result.Error == nil || ran.Load() != 1 {
				t.Errorf("ran %d times: %+v, %v", ran.Load(), now, err)
			}
		})
	}
}
