package run

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/catalog"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/schema"
	"github.com/toolroom/toolroom/source"
)

// How long a source has to end its work after the deadline or a cancel, before
// the call returns without it. Sources that run processes give them two seconds
// between SIGTERM and SIGKILL; nothing can end a Go function that does not
// watch its context, so there is no point in waiting long for one.
const (
	stopGrace   = 3 * time.Second
	stopGraceGo = 100 * time.Millisecond
)

// maxFailureText is how much of a failed tool's output its error repeats.
const maxFailureText = 2000

// run executes the tool under its deadline. When the deadline passes or the
// caller goes away, the work itself is ended.
func (p *pass) run() error {
	x := &execution{
		entry: p.entry,
		pass:  p,
		request: source.Request{
			Call:           p.call.ID,
			Tool:           p.entry.Tool.ID,
			Arguments:      p.call.Arguments,
			Identity:       p.call.Identity,
			IdempotencyKey: p.call.IdempotencyKey,
			Isolation:      string(p.least),
			Engine:         p.decision.Engine,
			Meta:           p.call.Meta,
			More:           p.call.More,
			Emit:           p.emit,
			Ask:            p.asker(),
			Again:          p.isJob(),
		},
	}
	if p.parent == nil {
		x.request.Budget, x.request.Resume = p.budget, p.resume
		x.request.Task = p.task(x)
	}
	x.Start(p.ctx, p.timeout(), context.DeadlineExceeded)
	defer x.Stop()
	p.ran = p.Now()
	p.result.Usage.Queue = p.ran.Sub(p.started) - p.result.Usage.Wait

	stopped := p.attend(x)
	ended := x.Err()
	waited := x.Stop()
	p.result.Usage.Wait += waited
	p.result.Usage.Run = p.Now().Sub(p.ran) - waited
	if !stopped { // the tool's goroutine may still write to x
		p.sent = true
		return p.interrupted(ended, nil, false)
	}
	p.sent = x.sent
	p.result.Usage.Attempts, p.result.Usage.Cached = x.attempts, x.cached
	if x.err != nil && ended != nil {
		return p.interrupted(ended, x.err, true)
	}
	p.output = x.output
	if x.err != nil && x.output != nil { // an error of the protocol, as it was sent
		p.result.Raw = x.output.Raw
		if p.Secrets != nil {
			p.result.Raw = p.Secrets.Mask(p.result.Raw)
		}
	}
	return p.executionError(x.err)
}

// attend runs the tool. One that does not stop when its time is over is left
// behind, and stopped is false.
func (p *pass) attend(x *execution) (stopped bool) {
	if s, ok := source.As[source.Stopper](p.entry.Source); ok && s.Stops() {
		p.attempt(x)
		return true
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.attempt(x)
	}()
	select {
	case <-done:
		return true
	case <-x.Done():
		return await(done, p.grace())
	}
}

// attempt runs the tool to its end. A panic is a failure of the tool.
func (p *pass) attempt(x *execution) {
	defer func() {
		if v := recover(); v != nil {
			p.Log.Error("a tool panicked", "tool", p.tool, "call", p.call.ID, "panic", v, "stack", string(debug.Stack()))
			x.output, x.err = nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s panicked: %v", p.tool, v)
		}
	}()
	x.output, x.err = p.execute(x, x)
}

// asker is whom the tool can ask.
func (p *pass) asker() source.Asker {
	asking, ok := p.ctx.Value(askerKey{}).(source.Asker)
	if !ok {
		return source.Nobody{}
	}
	return toolAsker{asking, p.Secrets}
}

func await(done <-chan struct{}, grace time.Duration) bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

func (p *pass) grace() time.Duration {
	if p.entry.Tool.Source == toolroom.SourceGo {
		return stopGraceGo
	}
	return stopGrace
}

// timeout is what the caller asked for, capped by the tool's ceiling.
func (p *pass) timeout() time.Duration {
	asked := cmp.Or(max(p.call.Timeout, 0), p.entry.Tool.DefaultTimeout, p.Limits.Timeout)
	return min(asked, p.ceiling())
}

// ceiling is the longest that the tool may take.
func (p *pass) ceiling() time.Duration {
	return cmp.Or(p.entry.Tool.Timeout, p.Limits.MaxTimeout)
}

// interrupted is the error of a call that was ended from outside. What its
// effects are is known only where the source says so.
func (p *pass) interrupted(ended, cause error, stopped bool) error {
	code := toolroom.CodeTimeout
	what := fmt.Sprintf("%s timed out after %s", p.tool, p.result.Usage.Run.Round(time.Millisecond))
	if errors.Is(ended, context.Canceled) {
		code, what = toolroom.CodeCancelled, p.tool+" was cancelled"
	}
	if !stopped {
		what += ", and it has not stopped"
	}
	e := toolroom.Errorf(code, "%s", what)
	e.Retryable = p.entry.Tool.RepeatGuarantee() == toolroom.GuaranteeSafe
	e.Cause = cause
	if code == toolroom.CodeTimeout {
		e.Hint = "ask for more time (at most " + p.ceiling().String() + "), or for less work"
	}
	var known *toolroom.Error
	if errors.As(cause, &known) {
		e.Details = known.Details
	}
	return e
}

// executionError gives an untyped error of a source the code execution_failed.
func (p *pass) executionError(err error) error {
	if err == nil {
		return nil
	}
	var known *toolroom.Error
	if errors.As(err, &known) {
		return known
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed: %w", p.tool, err)
}

// normalise turns what the source gave into value and content. Content alone
// becomes a value as the reference has it: one text that is JSON is that JSON,
// any other text a string, several pieces a list.
func (p *pass) normalise() error {
	out := p.output
	if out == nil {
		out = &source.Output{}
		p.output = out
	}
	p.result.Value, p.result.Content, p.result.Raw = out.Value, out.Content, out.Raw
	p.result.Usage.CPU, p.result.Usage.PeakMemory = out.CPU, out.PeakMemory
	if len(out.Value) == 0 && len(out.Content) > 0 {
		value, err := valueOf(out.Content)
		if err != nil {
			return toolroom.Errorf(toolroom.CodeInvalidOutput, "the result of %s cannot be written as JSON: %w", p.tool, err)
		}
		p.result.Value = value
	}
	if p.parent != nil {
		if err := p.budget.TakeBytes(len(p.result.Value)); err != nil {
			return err
		}
	}
	if !out.Failed {
		return nil
	}
	// Masked before it is cut: half a secret is one too much.
	text := catalog.Shorten(p.Secrets.Text(p.result.Text()), maxFailureText)
	if text == "" {
		text = "it gave no reason"
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s failed: %s", p.tool, text)
}

func valueOf(content []toolroom.Content) (json.RawMessage, error) {
	if len(content) == 1 && content[0].Type == toolroom.ContentText {
		return textValue(content[0].Text)
	}
	list := make([]json.RawMessage, len(content))
	for i, c := range content {
		var err error
		if c.Type == toolroom.ContentText {
			list[i], err = textValue(c.Text)
		} else {
			list[i], err = json.Marshal(c)
		}
		if err != nil {
			return nil, err
		}
	}
	return jsonx.Marshal(list)
}

// textValue is a text as JSON: itself when it is a JSON object or list, else a
// string. A text like 007 or true stays a text.
func textValue(text string) (json.RawMessage, error) {
	trimmed := bytes.TrimSpace([]byte(text))
	if len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
		return trimmed, nil
	}
	return jsonx.Marshal(text)
}

func (p *pass) validateOutput() error {
	output, err := p.entry.Output()
	if err != nil {
		return p.badSchema("output", err)
	}
	if output == nil {
		return nil
	}
	if output.Accepts(p.result.Value) {
		return nil
	}
	if err := fits(output, p.result.Value); err == nil {
		return nil
	}
	p.maskResult() // the error quotes the value
	e := toolroom.Errorf(toolroom.CodeInvalidOutput, "the value of %s does not fit its output schema", p.tool)
	if err := fits(output, p.result.Value); err != nil { // nil when only the secret did not fit
		e = toolroom.Errorf(toolroom.CodeInvalidOutput, "the value of %s does not fit its output schema: %w", p.tool, err)
	}
	return e.WithHint("the tool ran; its author must mend the tool or its schema")
}

func fits(output *schema.Schema, document json.RawMessage) error {
	value, err := jsonx.Decode(document, jsonx.Limits{Bytes: maxOutputDocument})
	if err != nil {
		return err
	}
	return output.Validate(value)
}

// maxOutputDocument is the largest value that is checked against a schema.
const maxOutputDocument = 64 << 20
