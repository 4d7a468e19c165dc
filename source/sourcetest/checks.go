package sourcetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

func (cfg *Config) testTools(t *testing.T) {
	s := cfg.open(t, func() {})
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	seen := map[toolroom.ID]bool{}
	for _, tool := range tools {
		if err := tool.ID.Validate(); err != nil {
			t.Errorf("%v", err)
		}
		if tool.ID.Namespace != cfg.Namespace {
			t.Errorf("%s is not in the namespace %q that the source was created with", tool.ID, cfg.Namespace)
		}
		if seen[tool.ID] {
			t.Errorf("%s is listed twice", tool.ID)
		}
		seen[tool.ID] = true
		if tool.Source == "" {
			t.Errorf("%s does not say what kind of source it comes from", tool.ID)
		}
		checkSchema(t, tool.ID, "input", tool.InputSchema)
		checkSchema(t, tool.ID, "output", tool.OutputSchema)
	}
	if id := cfg.request(t, cfg.Good).Tool; !seen[id] {
		t.Errorf("%s can be called but is not listed", id)
	}

	again, err := s.Tools(t.Context())
	if err != nil {
		t.Fatalf("list again: %v", err)
	}
	for _, tool := range again {
		if !seen[tool.ID] {
			t.Errorf("%s is in the second list but not in the first, though nothing has changed", tool.ID)
		}
	}
	if len(again) != len(tools) {
		t.Errorf("the second list has %d tools, the first %d, though nothing has changed", len(again), len(tools))
	}
}

// checkSchema accepts only objects, because every JSON Schema compiler accepts
// these. An input schema must also be able to accept an object.
func checkSchema(t *testing.T, id toolroom.ID, which string, schema json.RawMessage) {
	t.Helper()
	if len(schema) == 0 {
		return
	}
	var members map[string]any
	if err := json.Unmarshal(schema, &members); err != nil {
		t.Errorf("the %s schema of %s is not a JSON object: %v", which, id, err)
		return
	}
	if typ, ok := members["type"].(string); ok && which == "input" && typ != "object" {
		t.Errorf("the input schema of %s has type %q; arguments are an object", id, typ)
	}
}

func (cfg *Config) testToolsCancelled(t *testing.T) {
	s := cfg.open(t, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Tools(ctx)
		done <- err
	}()
	select {
	case <-done: // A source that already knows its list may return it.
	case <-time.After(cfg.Bound):
		t.Fatalf("listing has not returned %v after its context ended", cfg.Bound)
	}
	if _, err := s.Tools(t.Context()); err != nil {
		t.Errorf("listing fails after a cancelled listing: %v", err)
	}
}

func (cfg *Config) testGood(t *testing.T) {
	s := cfg.open(t, func() {})
	req := cfg.request(t, cfg.Good)
	before := bytes.Clone(req.Arguments)
	output, err := s.Call(t.Context(), req)
	if err != nil {
		t.Fatalf("call: %v", err)
	}
	checkOutput(t, cfg.Good, output)
	if !bytes.Equal(before, req.Arguments) {
		t.Errorf("the call changed its arguments from %s to %s", before, req.Arguments)
	}
}

func checkOutput(t *testing.T, c Call, output *source.Output) {
	t.Helper()
	if output == nil {
		t.Fatal("the call returned neither an output nor an error")
	}
	if output.Failed {
		t.Fatalf("the tool failed: value %s, content %+v", output.Value, output.Content)
	}
	if len(output.Value) > 0 && !json.Valid(output.Value) {
		t.Fatalf("the value is not JSON: %.200q", output.Value)
	}
	if c.Want != "" && !sameJSON(t, []byte(c.Want), output.Value) {
		t.Errorf("value: got %s, want %s", output.Value, c.Want)
	}
}

// sameJSON compares two JSON texts. It ignores the order of members and compares
// every digit of numbers.
func sameJSON(t *testing.T, want, got []byte) bool {
	t.Helper()
	decode := func(text []byte) any {
		var v any
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%.200q is not JSON: %v", text, err)
		}
		return v
	}
	return reflect.DeepEqual(decode(want), decode(got))
}

func (cfg *Config) testConcurrent(t *testing.T) {
	s := cfg.open(t, func() {})
	var wg sync.WaitGroup
	outcomes := make([]outcome, concurrency)
	for i := range outcomes {
		req := cfg.request(t, cfg.Good)
		wg.Go(func() {
			output, err := s.Call(t.Context(), req)
			outcomes[i] = outcome{output, err}
		})
	}
	wg.Wait()
	for _, got := range outcomes {
		if got.err != nil {
			t.Fatalf("one of %d concurrent calls: %v", concurrency, got.err)
		}
		checkOutput(t, cfg.Good, got.output)
	}
}

func (cfg *Config) testUnknownTool(t *testing.T) {
	s := cfg.open(t, func() {})
	req := cfg.request(t, Call{Tool: "no-such-tool.sourcetest"})
	_, err := s.Call(t.Context(), req)
	if toolroom.CodeOf(err) != toolroom.CodeToolNotFound {
		t.Errorf("got %v (%s), want an error with code tool_not_found", err, toolroom.CodeOf(err))
	}
}

func (cfg *Config) testFailing(t *testing.T) {
	if reason := cfg.Skip.Failing; reason != "" {
		t.Skip(reason)
	}
	s := cfg.open(t, func() {})
	output, err := s.Call(t.Context(), cfg.request(t, cfg.Failing))
	if err != nil {
		t.Fatalf("a tool that ran and failed returned the error %v; want an output with Failed set", err)
	}
	if !output.Failed {
		t.Fatalf("the output does not say that the tool failed: value %s", output.Value)
	}
	if len(output.Content) == 0 && len(output.Value) == 0 {
		t.Error("a failed output is empty; Content or Value must say why it failed")
	}
	if want := cfg.Failing.Want; want != "" && !sameJSON(t, []byte(want), output.Value) {
		t.Errorf("value: got %s, want %s", output.Value, want)
	}
}

func (cfg *Config) testCancelledBefore(t *testing.T) {
	s := cfg.open(t, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Call(ctx, cfg.request(t, cfg.Good))
	if toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("got %v (%s), want an error with code cancelled", err, toolroom.CodeOf(err))
	}
}

func (cfg *Config) testCancel(t *testing.T) {
	if reason := cfg.Skip.Slow; reason != "" {
		t.Skip(reason)
	}
	s := cfg.open(t, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := cfg.start(ctx, t, s)
	cancel()
	if err := cfg.ended(t, done); toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("got %v (%s), want an error with code cancelled", err, toolroom.CodeOf(err))
	}
	output, err := s.Call(t.Context(), cfg.request(t, cfg.Good))
	if err != nil {
		t.Fatalf("the source is not usable after a cancelled call: %v", err)
	}
	checkOutput(t, cfg.Good, output)
}

func (cfg *Config) testDeadline(t *testing.T) {
	if reason := cfg.Skip.Slow; reason != "" {
		t.Skip(reason)
	}
	s := cfg.open(t, func() {})
	ctx := &expiring{Context: context.Background(), done: make(chan struct{})}
	done := cfg.start(ctx, t, s)
	close(ctx.done)
	if err := cfg.ended(t, done); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Errorf("got %v (%s), want an error with code timeout", err, toolroom.CodeOf(err))
	}
}

// expiring is a context whose deadline passes when done is closed. The test then
// need not guess how long a call takes to start.
type expiring struct {
	context.Context
	done chan struct{}
}

func (c *expiring) Done() <-chan struct{} { return c.done }

func (c *expiring) Err() error {
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func (cfg *Config) testCloseInFlight(t *testing.T) {
	if reason := cfg.Skip.Slow; reason != "" {
		t.Skip(reason)
	}
	s := cfg.open(t, func() {})
	done := cfg.start(t.Context(), t, s)
	cfg.close(t, s)
	_ = cfg.ended(t, done)
}

func (cfg *Config) testCloseTwice(t *testing.T) {
	s := cfg.open(t, func() {})
	if _, err := s.Call(t.Context(), cfg.request(t, cfg.Good)); err != nil {
		t.Fatalf("call: %v", err)
	}
	cfg.close(t, s)
	cfg.close(t, s)
}

func (cfg *Config) testCallAfterClose(t *testing.T) {
	s := cfg.open(t, func() {})
	cfg.close(t, s)
	_, err := s.Call(t.Context(), cfg.request(t, cfg.Good))
	if _, ok := errors.AsType[*toolroom.Error](err); !ok {
		t.Errorf("got %v, want an *toolroom.Error", err)
	}
}

func (cfg *Config) close(t *testing.T, s source.Source) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("close: %v", err)
		}
	case <-time.After(cfg.Bound):
		t.Fatalf("close has not returned after %v", cfg.Bound)
	}
}

func (cfg *Config) testChange(t *testing.T) {
	changed := make(chan struct{}, 1)
	s := cfg.open(t, func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if _, ok := source.As[source.Notifier](s); !ok {
		t.Skip("the source is not a Notifier")
	}
	if reason := cfg.Skip.Change; reason != "" {
		t.Skip(reason)
	}
	if cfg.Change == nil {
		t.Fatal("the source is a Notifier but the fixture has no Change; set it, or declare a Skip with the reason")
	}
	before, err := s.Tools(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	cfg.Change(t, s)
	select {
	case <-changed:
	case <-time.After(cfg.Bound):
		t.Fatalf("the source did not announce the change within %v", cfg.Bound)
	}
	after, err := s.Tools(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	if reflect.DeepEqual(before, after) {
		t.Error("the source announced a change, but lists the same tools")
	}
}

func (cfg *Config) testDescribe(t *testing.T) {
	s := cfg.open(t, func() {})
	d, ok := source.As[source.Describer](s)
	if !ok {
		t.Skip("the source is not a Describer")
	}
	kind := d.Describe().Kind
	tools, err := s.Tools(t.Context())
	if err != nil {
		t.Fatalf("list: %v", err)
	}
	for _, tool := range tools {
		if tool.Source != kind {
			t.Errorf("%s has source kind %q, its source describes itself as %q", tool.ID, tool.Source, kind)
		}
	}
}
