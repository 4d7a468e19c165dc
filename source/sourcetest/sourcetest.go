// Package sourcetest checks that a [source.Source] fulfils the contract. A new
// kind of source is accepted if [Run] passes; [Skip] declares the parts of the
// contract that do not apply to it.
package sourcetest

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/source"
)

// Config describes a source under test and the calls to make.
type Config struct {
	// Open returns a new source whose tools are in Namespace. Run calls it once for
	// each subtest and closes the source.
	Open      func(t *testing.T) source.Source
	Namespace string

	// Good is a call that succeeds, any number of times and concurrently.
	Good Call
	// Failing is a call of a tool that runs and reports failure.
	Failing Call
	// Slow is a call that runs for a minute or more unless it is ended.
	Slow Call
	// Running returns how many Slow calls are being worked on now, measured where
	// the work is done: requests in a test server, living processes.
	Running func() int

	// Change changes the tools of s. It is required for sources that implement
	// source.Notifier.
	Change func(t *testing.T, s source.Source)

	// Bound is the longest time that ending a call or source may take. The default
	// is 10 s.
	Bound time.Duration
	Skip  Skip
}

// Call is one call of a fixture.
type Call struct {
	// Tool is the name without the namespace.
	Tool string
	// Arguments is a JSON object.
	Arguments string
	// Want is the expected value as JSON. Empty accepts any value.
	Want string
}

// Skip holds the reasons why parts of the contract do not apply to a source. An
// empty reason means that the part applies.
type Skip struct {
	// Failing: no tool of this kind of source can report failure by itself.
	Failing string
	// Slow: no call takes long enough to be ended.
	Slow string
	// Change: the fixture's tools cannot change, though the source is a Notifier.
	Change string
}

const (
	defaultBound = 10 * time.Second
	concurrency  = 16
)

// Run checks the contract of source.Source, one subtest for each requirement.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	cfg.Bound = cmp.Or(cfg.Bound, defaultBound)
	t.Run("tools have canonical ids of the namespace and JSON schemas", cfg.testTools)
	t.Run("listing ends when its context has ended", cfg.testToolsCancelled)
	t.Run("a good call returns its value and leaves the arguments unchanged", cfg.testGood)
	t.Run("calls run concurrently", cfg.testConcurrent)
	t.Run("an unknown tool is tool_not_found", cfg.testUnknownTool)
	t.Run("a tool that fails is an output, not an error", cfg.testFailing)
	t.Run("a call that is cancelled before it starts does not run", cfg.testCancelledBefore)
	t.Run("cancelling a call ends its work", cfg.testCancel)
	t.Run("a deadline ends a call's work", cfg.testDeadline)
	t.Run("closing ends the calls in flight", cfg.testCloseInFlight)
	t.Run("closing twice is closing once", cfg.testCloseTwice)
	t.Run("a closed source refuses calls with a typed error", cfg.testCallAfterClose)
	t.Run("a notifier announces that its tools have changed", cfg.testChange)
	t.Run("a describer says which kind it is", cfg.testDescribe)
}

// open returns a source that is closed when the test ends. If the source is a
// Notifier, open calls Notify first, because it must precede any other method.
func (cfg *Config) open(t *testing.T, notify func()) source.Source {
	t.Helper()
	s := cfg.Open(t)
	if n, ok := source.As[source.Notifier](s); ok {
		n.Notify(source.Events{ToolsChanged: notify, ResourceChanged: func(string, json.RawMessage) {}, Notified: func(source.Notification) {}})
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func (cfg *Config) request(t *testing.T, c Call) *source.Request {
	t.Helper()
	if c.Tool == "" {
		t.Fatal("the fixture names no tool for this call; name one, or declare a Skip with the reason")
	}
	arguments := c.Arguments
	if arguments == "" {
		arguments = "{}"
	}
	return &source.Request{
		Call:      "call_" + c.Tool,
		Tool:      toolroom.ID{Namespace: cfg.Namespace, Name: c.Tool},
		Arguments: []byte(arguments),
		Emit: func(e toolroom.Event) {
			switch e.Kind {
			case toolroom.EventProgress, toolroom.EventChunk, toolroom.EventLog, toolroom.EventNotice:
			default:
				t.Errorf("a source emitted %q; it may emit progress, chunk, log and notice", e.Kind)
			}
		},
	}
}

// outcome is the result of a call in another goroutine.
type outcome struct {
	output *source.Output
	err    error
}

// start makes the slow call and returns when its work has started.
func (cfg *Config) start(ctx context.Context, t *testing.T, s source.Source) <-chan outcome {
	t.Helper()
	if cfg.Running == nil {
		t.Fatal("the fixture has no Running function, so the test cannot see the end of a slow call's work")
	}
	req := cfg.request(t, cfg.Slow)
	done := make(chan outcome, 1)
	go func() {
		output, err := s.Call(ctx, req)
		done <- outcome{output, err}
	}()
	cfg.eventually(t, "the slow call's work has not started", func() bool { return cfg.Running() > 0 })
	return done
}

// ended waits until a slow call has returned an error and its work has ended.
func (cfg *Config) ended(t *testing.T, done <-chan outcome) error {
	t.Helper()
	var got outcome
	select {
	case got = <-done:
	case <-time.After(cfg.Bound):
		t.Fatalf("the call has not returned %v after it was ended", cfg.Bound)
	}
	if got.err == nil {
		t.Fatalf("the call that was ended returned an output and no error: %+v", got.output)
	}
	cfg.eventually(t, "the call's work continues after the call was ended", func() bool { return cfg.Running() == 0 })
	return got.err
}

// eventually polls until ok returns true, because the condition may depend on
// another process.
func (cfg *Config) eventually(t *testing.T, failure string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(cfg.Bound)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s (%v)", failure, cfg.Bound)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
