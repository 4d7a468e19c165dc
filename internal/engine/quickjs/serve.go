package quickjs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// Serve is the guest's side of a bridge. It sends hello, and runs each program that
// it receives in its own isolate, until the stream ends.
func (m service) Serve(ctx context.Context, stream io.ReadWriter) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &server{machine: m.Machine, wire: bridge.NewWire(stream), out: stream, stop: stop}
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: Version}}
	if err := s.wire.Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	j, err := s.read(wasm.NewInbox[Frame]())
	for err == nil {
		if err := s.run(ctx, j); err != nil && ctx.Err() == nil {
			return err
		}
		if s.received == nil {
			j, err = s.read(j.inbox)
			continue
		}
		next := <-s.received
		j, err, s.received = next.job, next.err, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

type server struct {
	machine  *Machine
	wire     *bridge.Wire
	out      io.Writer
	buffer   []byte       // of the outgoing frame
	stop     func()       // ends the current run
	received chan nextRun // from the goroutine that reads during a run, nil if none does
}

// nextRun is the next run, or an error if there is none.
type nextRun struct {
	job job
	err error
}

// job is one run: the guest's part, and the token of its frames.
type job struct {
	inbox   *wasm.Inbox[Frame]
	token   []byte
	tools   encodedTools
	memory  int64
	wall    time.Duration
	cpu     time.Duration
	seed    []byte // of its random numbers; if empty, they come from the system
	session string // empty means that no state is kept
	state   []byte // of the session before the run
}

// port returns the run's port, which sends the run's frames with send.
func (j *job) port(send func(Frame) (bool, error)) Port {
	return Port{Inbox: j.inbox, Send: send, Find: j.tools.find, Memory: j.memory, Wall: j.wall, CPU: j.cpu, Seed: j.seed, Keep: j.session != ""}
}

// read handles the server's frames until one begins a run; others are for the run
// under way. The goroutine that is about to run a program reads, so that a short
// program is read, run and answered without waking a second thread. While a program
// runs for longer, or waits, another goroutine continues reading.
func (s *server) read(inbox *wasm.Inbox[Frame]) (job, error) {
	for {
		f, _, err := s.wire.Read()
		if err != nil {
			return job{}, err
		}
		if f.Kind == bridge.Start {
			return s.begin(f)
		}
		if err := dispatch(f, inbox); err != nil {
			return job{}, err
		}
	}
}

func (s *server) begin(start bridge.Frame) (job, error) {
	j, err := newJob(start)
	if err != nil {
		return j, err
	}
	j.inbox.Listen = func() { s.listen(j.inbox) }
	j.inbox.Pull = func() error { return s.readOne(j.inbox) }
	return j, nil
}

// dispatch passes a frame to the run under way.
func dispatch(f bridge.Frame, inbox *wasm.Inbox[Frame]) error {
	switch f.Kind {
	case bridge.Cancel:
		inbox.Cancel()
	case bridge.Result:
		result, err := newFrame(f)
		if err != nil {
			return err
		}
		inbox.Put(result)
	default:
		return fmt.Errorf("unexpected %s frame during a run", f.Kind)
	}
	return nil
}

// readOne reads one frame for a waiting run.
func (s *server) readOne(inbox *wasm.Inbox[Frame]) error {
	f, _, err := s.wire.Read()
	if err == nil {
		err = dispatch(f, inbox)
	}
	if err != nil {
		s.stop() // a program must not continue without its server
		inbox.Cancel()
	}
	return err
}

// listen reads frames during a run.
func (s *server) listen(inbox *wasm.Inbox[Frame]) {
	heard := make(chan nextRun, 1)
	s.received = heard
	go func() {
		j, err := s.read(inbox)
		if err != nil {
			s.stop() // a program must not continue without its server
			inbox.Cancel()
		}
		heard <- nextRun{j, err}
	}()
}

func (s *server) run(ctx context.Context, j job) error {
	isolate, err := s.machine.Isolate(ctx)
	if err != nil {
		return err
	}
	defer isolate.Release()
	if j.session != "" {
		return s.runSession(ctx, isolate, j)
	}
	end, err := isolate.Run(ctx, j.port(func(f Frame) (bool, error) { return s.send(j.token, f) }))
	if end == Finished {
		return nil
	}
	return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: describe(end, err)})
}

// send forwards a frame of the guest. It forwards the body unchanged; the server
// validates it.
func (s *server) send(token []byte, f Frame) (last bool, err error) {
	if f.Kind >= uint32(bridge.Start) {
		return false, fmt.Errorf("a guest does not send %s", bridge.Kind(f.Kind))
	}
	b := append(s.buffer[:0], 0, 0, 0, 0, 0x84)
	b = appendHead(b, 0, uint64(f.Kind))
	b = appendHead(b, 0, uint64(f.ID))
	b = append(appendHead(b, 0x40, uint64(len(token))), token...)
	if b, err = appendBody(b, f); err != nil {
		return false, err
	}
	if len(b)-4 > bridge.MaxFrame {
		return false, fmt.Errorf("a frame has %d bytes, more than the limit of %d", len(b)-4, bridge.MaxFrame)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if cap(b) <= 1<<20 { // do not keep the memory of a rare huge frame
		s.buffer = b
	}
	_, err = s.out.Write(b)
	kind := bridge.Kind(f.Kind)
	return kind == bridge.Done || kind == bridge.Failed, err
}

// appendBody appends the guest's JSON in the encoding of the bridge.
func appendBody(b []byte, f Frame) ([]byte, error) {
	if !f.Text {
		return append(b, f.Body...), nil
	}
	value, err := bridge.FromJSON(f.Body)
	if err != nil {
		return nil, fmt.Errorf("the guest sent invalid JSON: %w", err)
	}
	return bridge.AppendValue(b, value)
}

// describe returns the body of the last frame for a run that could not send its own.
func describe(end End, err error) bridge.Map {
	fail := func(kind bridge.FailureKind, limit, message string) bridge.Map {
		return bridge.Map{{Key: "kind", Value: string(kind)}, {Key: "limit", Value: limit}, {Key: "message", Value: message}}
	}
	switch end {
	case TimedOut:
		return fail(bridge.FailLimit, "wall", "its time was over")
	case OutOfCPU:
		return fail(bridge.FailLimit, "cpu", "it used all its CPU time")
	case OutOfMemory:
		return fail(bridge.FailLimit, "memory", "it exceeded its memory limit")
	case Cancelled:
		return fail(bridge.FailCancelled, "", "it was cancelled")
	}
	return fail(bridge.FailProgram, "", fmt.Sprintf("the JavaScript engine failed: %.2000s", err))
}

// runSession runs a program from the state of its session, and sends the state
// after the run with the last frame, because only then has the engine stopped.
func (s *server) runSession(ctx context.Context, isolate *Isolate, j job) error {
	if refused := s.machine.Resume(isolate, Name, j.state); refused != nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: refused})
	}
	var last *bridge.Frame
	send := func(f Frame) (bool, error) {
		kind := bridge.Kind(f.Kind)
		if kind != bridge.Done && kind != bridge.Failed {
			return s.send(j.token, f)
		}
		encoded, err := appendBody(nil, Frame{Body: bytes.Clone(f.Body), Text: f.Text})
		if err != nil {
			return true, err
		}
		body, err := bridge.DecodeValue(encoded)
		if err != nil {
			return true, fmt.Errorf("read the guest's last frame: %w", err)
		}
		fields, _ := body.(bridge.Map)
		last = &bridge.Frame{Kind: kind, Token: j.token, Body: fields}
		return true, nil
	}
	end, err := isolate.Run(ctx, j.port(send))
	if end != Finished || last == nil {
		return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: describe(end, err)})
	}
	save := func() ([]byte, error) { return isolate.Save(ctx) }
	return s.machine.FinishSession(*last, save, s.wire.Write)
}
