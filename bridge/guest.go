package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Guest is the reference guest: the side of the stream that runs programs.
// toolroom-guest and the engines written in Go are built on it.
type Guest struct {
	wire *Wire

	mu  sync.Mutex
	job *Job // the run under way
	err error
	// jobs delivers runs; the reader closes it when the stream has ended.
	jobs chan *Job
}

// GuestOptions configures a [Guest].
type GuestOptions struct {
	// Name names the guest to people.
	Name string
	// Token is the token that the guest received out of band.
	Token []byte
}

// Join sends hello. Afterwards [Guest.Next] returns the runs.
func Join(stream io.ReadWriter, o GuestOptions) (*Guest, error) {
	g := &Guest{wire: NewWire(stream), jobs: make(chan *Job)}
	hello := Map{{"versions", []Value{int64(Version)}}, {"guest", o.Name}}
	if err := g.wire.Write(Frame{Kind: Hello, Token: o.Token, Body: hello}); err != nil {
		return nil, fmt.Errorf("say hello: %w", err)
	}
	go g.read()
	return g, nil
}

// Next waits for the next run. io.EOF means that the server has no more runs.
func (g *Guest) Next(ctx context.Context) (*Job, error) {
	select {
	case job, ok := <-g.jobs:
		if !ok {
			g.mu.Lock()
			defer g.mu.Unlock()
			return nil, g.err
		}
		return job, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (g *Guest) read() {
	for {
		f, _, err := g.wire.Read()
		if err == nil && f.Kind == Refuse {
			err = protocolError("the server refused this guest: %s", f.Body.Text("reason"))
		}
		if err != nil {
			g.end(err)
			return
		}
		if f.Kind == Start {
			job := g.begin(f)
			g.jobs <- job
			continue
		}
		g.mu.Lock()
		job := g.job
		g.mu.Unlock()
		if job != nil {
			job.handle(f)
		}
	}
}

func (g *Guest) begin(f Frame) *Job {
	ctx, cancel := context.WithCancelCause(context.Background())
	job := &Job{guest: g, token: f.Token, ctx: ctx, cancel: cancel, Program: ReadProgram(f.Body), waiting: map[uint64]chan Map{}}
	g.mu.Lock()
	g.job = job
	g.mu.Unlock()
	return job
}

func (g *Guest) end(err error) {
	g.mu.Lock()
	g.err = err
	job := g.job
	g.mu.Unlock()
	if job != nil {
		job.cancel(ErrServerGone)
	}
	close(g.jobs)
}

// ErrServerGone is the cancellation cause of a job's context when the stream has ended.
var ErrServerGone = errors.New("the server ended the stream")

// Job is one run, as the guest sees it. Its methods are safe for concurrent use.
type Job struct {
	Program Program

	guest  *Guest
	token  []byte
	ctx    context.Context
	cancel context.CancelCauseFunc
	ids    atomic.Uint64

	mu      sync.Mutex
	waiting map[uint64]chan Map
}

// Context returns a context that ends when the server cancels the run or the run ends.
func (j *Job) Context() context.Context { return j.ctx }

func (j *Job) handle(f Frame) {
	switch f.Kind {
	case Cancel:
		j.cancel(fmt.Errorf("cancelled: %s", f.Body.Text("reason")))
	case Result:
		j.mu.Lock()
		answer := j.waiting[f.ID]
		delete(j.waiting, f.ID)
		j.mu.Unlock()
		if answer != nil {
			answer <- f.Body // has room for one
		}
	}
}

// Ask sends a request and waits for its result. If the tool fails, the error is
// a [*toolroom.Error].
func (j *Job) Ask(ctx context.Context, kind Kind, body Map) (Value, error) {
	id := j.ids.Add(1)
	answer := make(chan Map, 1)
	j.mu.Lock()
	j.waiting[id] = answer
	j.mu.Unlock()
	if err := j.Send(kind, id, body); err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if failed, ok := m.Get("error").(Map); ok {
			return nil, readError(failed)
		}
		return m.Get("value"), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-j.ctx.Done():
		return nil, context.Cause(j.ctx)
	}
}

// Send sends a frame of this run. The id is 0 unless the frame is a request.
func (j *Job) Send(kind Kind, id uint64, body Map) error {
	return j.guest.wire.Write(Frame{Kind: kind, ID: id, Token: j.token, Body: body})
}

// Call calls a tool.
func (j *Job) Call(ctx context.Context, tool string, arguments Map) (Value, error) {
	return j.Ask(ctx, Call, Map{{"tool", tool}, {"arguments", orEmptyMap(arguments)}})
}

// Print sends text that the program wrote to stdout or stderr.
func (j *Job) Print(stream, text string) error {
	return j.Send(Print, 0, Map{{"stream", stream}, {"text", text}})
}

// End is the content of the last frame of a run.
type End struct {
	Value   Value
	Failure *Failure
	State   []byte
	Exit    int
	// CPU in milliseconds and Memory in bytes, 0 if not known.
	CPU, Memory int64
}

// End ends the run. If the bridge cannot carry the value, the run fails with a
// failure of kind value.
func (j *Job) End(e End) error {
	defer j.cancel(errors.New("the run has ended"))
	tail := Map{{"state", e.State}, {"exit", int64(e.Exit)}, {"usage", Map{{"cpu", e.CPU}, {"memory", e.Memory}}}}
	if e.Failure == nil {
		err := j.Send(Done, 0, append(Map{{"value", e.Value}}, tail...))
		var large *TooLargeError
		if err == nil || errors.Is(err, io.ErrClosedPipe) {
			return err
		}
		e.Failure = &Failure{Kind: FailValue, Message: err.Error()}
		if errors.As(err, &large) {
			e.Failure.Message = fmt.Sprintf("the returned value has %d bytes, more than the limit of %d", large.Size, large.Limit)
		}
	}
	return j.Send(Failed, 0, append(FailureBody(e.Failure), tail...))
}
