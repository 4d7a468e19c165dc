package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Guest is the reference guest: the side of the stream that runs programs. It
// is what toolroom-guest and the engines written in Go are built on.
type Guest struct {
	wire *Wire

	mu  sync.Mutex
	job *Job // the run under way
	err error
	// jobs hands over runs; the reader closes it when the stream has ended.
	jobs chan *Job
}

// GuestOptions are those of a [Guest].
type GuestOptions struct {
	// Name is what the guest calls itself, for people.
	Name string
	// Token is the one that was given to the guest out of band.
	Token []byte
	// MaxFrame is the largest frame in bytes, [DefaultMaxFrame] if zero.
	MaxFrame int
}

// Join says hello. From then on [Guest.Next] gives the runs.
func Join(stream io.ReadWriter, o GuestOptions) (*Guest, error) {
	g := &Guest{wire: NewWire(stream, o.MaxFrame), jobs: make(chan *Job)}
	hello := Map{{"versions", []Value{int64(Version)}}, {"guest", o.Name}}
	if err := g.wire.Write(Frame{Kind: Hello, Token: o.Token, Body: hello}); err != nil {
		return nil, fmt.Errorf("say hello: %w", err)
	}
	go g.read()
	return g, nil
}

// Next waits for the next run. io.EOF means that the host wants no more.
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
			err = broken("the host refused this guest: %s", f.Body.Text("reason"))
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
			job.take(f)
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
		job.cancel(ErrHostGone)
	}
	close(g.jobs)
}

// ErrHostGone is the cause of a job's context when the stream has ended.
var ErrHostGone = errors.New("the host ended the stream")

// Job is one run, seen from the guest. Its methods may be called from many
// goroutines.
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

// Context ends when the host cancels the run, and when the run has ended.
func (j *Job) Context() context.Context { return j.ctx }

func (j *Job) take(f Frame) {
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

// Ask sends a question and waits for its result. The error of a tool is a
// [*toolroom.Error].
func (j *Job) Ask(ctx context.Context, kind Kind, body Map) (Value, error) {
	id := j.ids.Add(1)
	answer := make(chan Map, 1)
	j.mu.Lock()
	j.waiting[id] = answer
	j.mu.Unlock()
	if err := j.Tell(kind, id, body); err != nil {
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

// Tell sends a frame of this run that wants no result; id is 0 then.
func (j *Job) Tell(kind Kind, id uint64, body Map) error {
	return j.guest.wire.Write(Frame{Kind: kind, ID: id, Token: j.token, Body: body})
}

// Call calls a tool.
func (j *Job) Call(ctx context.Context, tool string, arguments Map) (Value, error) {
	return j.Ask(ctx, Call, Map{{"tool", tool}, {"arguments", orEmpty(arguments)}})
}

// Print sends text that the program wrote to stdout or stderr.
func (j *Job) Print(stream, text string) error {
	return j.Tell(Print, 0, Map{{"stream", stream}, {"text", text}})
}

// End is what a guest says last of a run.
type End struct {
	Value   Value
	Failure *Failure
	State   []byte
	Exit    int
	// CPU in milliseconds and Memory in bytes, 0 if not known.
	CPU, Memory int64
}

// End ends the run. A value that the bridge cannot carry becomes a failure of
// kind value.
func (j *Job) End(e End) error {
	defer j.cancel(errors.New("the run has ended"))
	tail := Map{{"state", e.State}, {"exit", int64(e.Exit)}, {"usage", Map{{"cpu", e.CPU}, {"memory", e.Memory}}}}
	if e.Failure == nil {
		err := j.Tell(Done, 0, append(Map{{"value", e.Value}}, tail...))
		var large *TooLargeError
		if err == nil || errors.Is(err, io.ErrClosedPipe) {
			return err
		}
		e.Failure = &Failure{Kind: FailValue, Message: err.Error()}
		if errors.As(err, &large) {
			e.Failure.Message = fmt.Sprintf("the value given back has %d bytes, the limit is %d", large.Size, large.Limit)
		}
	}
	return j.Tell(Failed, 0, append(FailureBody(e.Failure), tail...))
}
