package run_test

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/receipt"
	"github.com/toolroom/toolroom/internal/run"
	"github.com/toolroom/toolroom/internal/source/gofunc"
	"github.com/toolroom/toolroom/internal/store/sqlite"
	"github.com/toolroom/toolroom/source"
)

// issueSchema has the seven properties of an ordinary tool.
const issueSchema = `{
	"type": "object",
	"properties": {
		"owner":    {"type": "string", "minLength": 1},
		"repo":     {"type": "string", "minLength": 1},
		"title":    {"type": "string", "maxLength": 256},
		"body":     {"type": "string"},
		"labels":   {"type": "array", "items": {"type": "string"}, "maxItems": 20},
		"priority": {"type": "integer", "minimum": 1, "maximum": 5},
		"state":    {"enum": ["open", "closed"]}
	},
	"required": ["owner", "repo", "title"],
	"additionalProperties": false
}`

const issueArguments = `{"owner":"toolroom","repo":"toolroom","title":"The door sticks","body":"It opens on the second push.","labels":["bug","door"],"priority":2,"state":"open"}`

var issueCall = toolroom.Call{
	Tool:      "issues:create",
	Arguments: json.RawMessage(issueArguments),
	Surface:   "http",
	Identity:  toolroom.Identity{Subject: "ann", Agent: "fast", Groups: []string{"dev"}},
}

func issueHandler(context.Context, *source.Request) (*source.Output, error) {
	return &source.Output{Value: json.RawMessage(`{"number":42,"url":"https://example.com/42"}`)}, nil
}

// BenchmarkCall is one call in this process, with more and more around it. The
// cost of Toolroom is the difference to the handler alone.
func BenchmarkCall(b *testing.B) {
	b.Run("handler", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := issueHandler(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("runner", func(b *testing.B) {
		callMany(b, newIssueRunner(b, "", run.Options{}), nil)
	})
	b.Run("schema", func(b *testing.B) {
		callMany(b, newIssueRunner(b, issueSchema, run.Options{}), nil)
	})
	b.Run("schema,policy", func(b *testing.B) {
		callMany(b, newIssueRunner(b, issueSchema, run.Options{Policy: issuePolicy(b)}), nil)
	})
	b.Run("schema,policy,events", func(b *testing.B) {
		callMany(b, newIssueRunner(b, issueSchema, run.Options{Policy: issuePolicy(b), Bus: watchedBus(b)}), nil)
	})
	// Receipts are written in the background while calls run: their allocations
	// are in allocs/op, here of a store that keeps nothing.
	b.Run("schema,policy,events,receipts", func(b *testing.B) {
		recorder := newRecorder(b, nowhere{})
		callMany(b, newIssueRunner(b, issueSchema, run.Options{Policy: issuePolicy(b), Bus: watchedBus(b), Receipts: recorder}), recorder)
	})
	b.Run("schema,policy,events,receipts,sqlite", func(b *testing.B) {
		recorder := newRecorder(b, benchStore(b))
		callMany(b, newIssueRunner(b, issueSchema, run.Options{Policy: issuePolicy(b), Bus: watchedBus(b), Receipts: recorder}), recorder)
	})
}

// BenchmarkCallsSustained makes calls without a pause until they wait for the
// disk: ns/op is then what one durable receipt costs.
func BenchmarkCallsSustained(b *testing.B) {
	recorder := newRecorder(b, benchStore(b))
	r := newIssueRunner(b, issueSchema, run.Options{Policy: issuePolicy(b), Bus: watchedBus(b), Receipts: recorder})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if result := r.Run(b.Context(), issueCall); result.Error != nil {
				b.Error(result.Error)
				return
			}
		}
	})
	if err := recorder.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// burst is how many calls are made before the clock stops for the recorder to
// catch up: well below its queue, so that no call waits for the disk.
const burst = 2048

func callMany(b *testing.B, r *run.Runner, recorder *receipt.Recorder) {
	b.Helper()
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		if result := r.Run(b.Context(), issueCall); result.Error != nil {
			b.Fatal(result.Error)
		}
		if recorder != nil && i%burst == 0 {
			b.StopTimer()
			if err := recorder.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
}

func newIssueRunner(b *testing.B, schema string, o run.Options) *run.Runner {
	b.Helper()
	tool := toolroom.Tool{ID: toolroom.MustParseID("issues:create"), Source: toolroom.SourceGo, InputSchema: json.RawMessage(schema)}
	funcs := &gofunc.Source{}
	funcs.Put(gofunc.Func{Tool: tool, Handler: issueHandler})
	o.Catalog = catalog.New(catalog.Options{})
	if err := o.Catalog.Register("go", funcs, tool); err != nil {
		b.Fatal(err)
	}
	return run.New(o)
}

func issuePolicy(b *testing.B) *policy.Policy {
	b.Helper()
	layers, err := policy.Compile(policy.Config{
		Rules: policy.Rules{
			Profile: policy.ProfileCoding,
			Allow:   []string{"issues.*"},
			Deny:    []string{"shell.*", "*.delete", "browser.evaluate", "issues.drop"},
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	return layers
}

// watchedBus has one subscriber, which reads all events.
func watchedBus(b *testing.B) *run.Bus {
	b.Helper()
	bus := &run.Bus{}
	sub := bus.Subscribe(nil)
	ctx, cancel := context.WithCancel(context.Background())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			if _, _, err := sub.Next(ctx); err != nil {
				return
			}
		}
	}()
	b.Cleanup(func() {
		cancel()
		<-read
		sub.Close()
	})
	return bus
}

func newRecorder(b *testing.B, store receipt.Store) *receipt.Recorder {
	b.Helper()
	recorder := receipt.NewRecorder(store, receipt.RecorderOptions{})
	b.Cleanup(func() {
		if err := recorder.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return recorder
}

func benchStore(b *testing.B) *sqlite.Store {
	b.Helper()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "toolroom.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
	})
	return store
}

// nowhere takes receipts and keeps none.
type nowhere struct{ receipt.Store }

func (nowhere) AppendReceipts(context.Context, []*receipt.Draft) error { return nil }
func (nowhere) ReceiptSpace(context.Context) (int64, error)            { return math.MaxInt64, nil }
