package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/deadline"
	"github.com/toolroom/toolroom/source"
)

// How long a source has to stop after the deadline or a cancellation. After that the
// call returns without waiting for it. Sources that run processes wait two seconds between
// SIGTERM and SIGKILL. Nothing can stop a Go function that ignores its context,
// so the wait for one is short.
const (
	stopGrace   = 3 * time.Second
	stopGraceGo = 100 * time.Millisecond
)

// ErrStopped is the cause of the context of a call that has not finished in time when its
// server stops.
var ErrStopped = errors.New("the server stopped")

// execution is one execution of a tool inside the decorators. It is also the context that the
// tool gets: it ends at the tool's deadline, and calls made with it are children of the call.
type execution struct {
	deadline.Timer
	call    *clearedCall
	request source.Request
	scope   scope

	began    time.Time
	attempts int
	cached   bool
	sent     bool // an attempt may have reached the tool
	output   *source.Output
	err      error
}

// executions is the set of a runner's executions. An execution is in it from the start of its
// tool to the end of its call.
type executions struct {
	mu  sync.Mutex
	all map[*execution]struct{}
}

func (e *executions) add(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*execution]struct{}{}
	}
	e.all[x] = struct{}{}
}

func (e *executions) remove(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.all, x)
}

// Running returns how many calls have started their tool and have not ended. Calls that wait
// for a person do not count.
func (r *Runner) Running() (n int) {
	r.executions.mu.Lock()
	defer r.executions.mu.Unlock()
	for x := range r.executions.all {
		if !x.Paused() {
			n++
		}
	}
	return n
}

// Value returns the scope of the calls that the tool makes.
func (x *execution) Value(key any) any {
	if key == (scopeKey{}) {
		return &x.scope
	}
	return x.Timer.Value(key)
}

// newExecution returns the execution of the call's tool. The tool has not been started.
func (c *clearedCall) newExecution() *execution {
	x := &execution{
		call: c,
		request: source.Request{
			Call:           c.request.ID,
			Tool:           c.entry.Tool.ID,
			Arguments:      c.request.Arguments,
			Identity:       c.request.Identity,
			IdempotencyKey: c.request.IdempotencyKey,
			Session:        c.request.Session,
			Environment:    c.request.Environment,
			Isolation:      string(c.isolation),
			Engine:         c.decision.Engine,
			Forbidden:      c.decision.Forbidden(),
			Meta:           c.request.Meta,
			More:           c.request.More,
			Emit:           c.emit,
			Ask:            c.asker(),
			MayHaveBegun:   c.background != nil,
		},
	}
	x.scope = c.scope
	s := &x.scope
	s.runner, s.identity, s.session = c.runner, c.request.Identity, c.request.Session
	s.environment = c.request.Environment
	s.id, s.tool, s.entry, s.parent, s.tally = c.request.ID, c.tool, c.entry, c.parent, &c.tally
	s.suspend = nil
	if c.parent == nil {
		x.request.Resume = c.resume
		if c.request.Budget == nil { // a caller's own budget must not grow
			x.request.Budget = s.budget
		}
		x.request.Task = c.taskStarter(x)
		if c.runner.Jobs != nil {
			s.suspend = c.suspend
		}
	}
	return x
}

// execute runs the tool under its deadline. When the deadline passes or the call is
// cancelled, the tool itself is stopped.
func (c *clearedCall) execute() (*executedCall, error) {
	x := c.newExecution()
	x.Start(c.ctx, c.timeout(), context.DeadlineExceeded)
	defer x.Stop()
	c.execution = x
	c.runner.executions.add(x)
	done := &executedCall{clearedCall: c, began: c.runner.Now()}
	x.began = done.began
	usage := &done.result.Usage
	usage.Wait = c.waited
	usage.Queue = done.began.Sub(c.started) - usage.Wait

	stopped := c.runWithGrace(x)
	ended := x.Err()
	waited := x.Stop()
	usage.Wait += waited
	usage.Run = c.runner.Now().Sub(done.began) - waited
	if !stopped { // the tool's goroutine may still write to x
		done.sent = true
		return done, done.interruptionError(ended, nil, false)
	}
	done.sent = x.sent
	usage.Attempts, usage.Cached = x.attempts, x.cached
	if x.err != nil && ended != nil {
		return done, done.interruptionError(ended, x.err, true)
	}
	done.output = x.output
	if x.err != nil && x.output != nil { // a protocol error, as it was sent
		done.result.Raw = x.output.Raw
		if c.runner.Secrets != nil {
			done.result.Raw = c.runner.Secrets.Redact(done.result.Raw)
		}
	}
	return done, c.executionError(x.err)
}

// runWithGrace runs the tool. If the tool still runs when its context has ended and the grace
// period is over, runWithGrace returns with stopped false.
func (c *clearedCall) runWithGrace(x *execution) (stopped bool) {
	if c.entry.CancelsPromptly {
		c.runTool(x)
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.runTool(x)
	}()
	select {
	case <-done:
		return true
	case <-x.Done():
		return waitAtMost(done, c.grace())
	}
}

// runTool runs the tool to its end. A panic is a failure of the tool.
func (c *clearedCall) runTool(x *execution) {
	defer func() {
		if v := recover(); v != nil {
			c.runner.Log.Error("a tool panicked", "tool", c.tool, "call", c.request.ID, "panic", v, "stack", string(debug.Stack()))
			x.output, x.err = nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s panicked: %v", c.tool, v)
		}
	}()
	x.output, x.err = c.runner.limits.Load().execute(x, x)
}

// asker returns the asker of the tool.
func (c *call) asker() source.Asker {
	if c.scope.asker == nil {
		return source.NoAsker{}
	}
	return toolAsker{c.scope.asker, c, c.runner.Secrets}
}

// waitAtMost waits until done is closed, and reports false if grace is over before.
func waitAtMost(done <-chan struct{}, grace time.Duration) bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (c *resolvedCall) grace() time.Duration {
	if c.entry.Tool.Source == toolroom.SourceGo {
		return stopGraceGo
	}
	return stopGrace
}

// timeout returns the caller's timeout, limited by the tool's maximum.
func (c *resolvedCall) timeout() time.Duration {
	asked := cmp.Or(c.request.Timeout, c.entry.Tool.DefaultTimeout, c.runner.Limits().Timeout)
	return min(asked, c.maxTimeout())
}

// maxTimeout returns the longest time that the tool may take.
func (c *resolvedCall) maxTimeout() time.Duration {
	return cmp.Or(c.entry.Tool.Timeout, c.runner.Limits().MaxTimeout)
}

// interruptionError returns the error of a call that timed out or was cancelled while its tool
// ran. The effects are known only if the source reports them.
func (c *executedCall) interruptionError(ended, cause error, stopped bool) error {
	code, serverStopped := toolroom.CodeTimeout, false
	what := fmt.Sprintf("%s timed out after %s", c.tool, c.result.Usage.Run.Round(time.Millisecond))
	if errors.Is(ended, context.Canceled) {
		code, what = toolroom.CodeCancelled, c.tool+" was cancelled"
		if serverStopped = errors.Is(context.Cause(c.ctx), ErrStopped); serverStopped {
			what += ", because the server stopped"
		}
	}
	if !stopped {
		what += ", and it has not stopped"
	}
	e := toolroom.Errorf(code, "%s", what)
	e.Retryable = c.entry.Tool.RepeatGuarantee() == toolroom.GuaranteeSafe
	e.Cause = cause
	switch {
	case code == toolroom.CodeTimeout:
		e.Hint = "ask for more time (at most " + c.maxTimeout().String() + "), or for less work"
	case serverStopped && e.Retryable:
		e.Hint = "make the call again when the server is back"
	case serverStopped:
		e.Hint = "when the server is back, find out what the call has done before you make it again"
	}
	if known := (*toolroom.Error)(nil); errors.As(cause, &known) {
		e.Details, e.Facts = known.Details, known.Facts
	}
	return e
}

// executionError returns err, with the code execution_failed if it has none.
func (c *call) executionError(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*toolroom.Error](err); ok {
		return known
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed: %w", c.tool, err)
}
