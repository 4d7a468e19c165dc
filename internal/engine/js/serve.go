package js

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// serve is the guest side of a bridge: it says hello, and runs what it is
// sent, each program in an isolate of its own, until the stream ends.
func serve(ctx context.Context, m *quickjs.Machine, stream io.ReadWriter) error {
	s := &server{machine: m, wire: bridge.NewWire(stream, 0), out: stream, runs: make(chan job)}
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: quickjs.Version}}
	if err := s.wire.Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		s.readErr = s.read(stream)
		stop() // a program whose host is gone must not go on
		close(s.runs)
	}()
	for j := range s.runs {
		if err := s.run(ctx, j); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if errors.Is(s.readErr, io.EOF) || errors.Is(s.readErr, io.ErrClosedPipe) {
		return nil
	}
	return s.readErr
}

type server struct {
	machine *quickjs.Machine
	wire    *bridge.Wire
	out     io.Writer
	buffer  []byte // of the frame that goes out
	runs    chan job
	readErr error // of the reader, once runs is closed
}

// job is one run: what is for the guest, and the token of its frames.
type job struct {
	inbox *quickjs.Inbox
	token []byte
	past  past
}

// read sorts the host's frames: a start begins a run, others are for the run
// under way. It never waits for a run, so that it always sees a cancellation.
func (s *server) read(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 64<<10)
	inbox := quickjs.NewInbox()
	for {
		data, err := readFrame(in)
		if err != nil {
			inbox.Cancel()
			return err
		}
		h, err := readHeader(data)
		if err != nil {
			return err
		}
		switch h.kind {
		case bridge.Start:
			inbox = quickjs.NewInbox()
			frame, past := h.start()
			inbox.Put(frame)
			s.runs <- job{inbox, h.token, past}
		case bridge.Cancel:
			inbox.Cancel()
		case bridge.Result:
			inbox.Put(h.result())
		default:
			return fmt.Errorf("a guest is not sent %s", h.kind)
		}
	}
}

func (s *server) run(ctx context.Context, j job) error {
	isolate, err := s.machine.Isolate(ctx)
	if err != nil {
		return err
	}
	defer isolate.Release()
	if j.past.session != "" {
		return s.runSession(ctx, isolate, j)
	}
	end, err := isolate.Run(ctx, quickjs.Port{Inbox: j.inbox, Send: func(f quickjs.Frame) (bool, error) { return s.send(j.token, f) }, Seed: j.past.seed})
	if end == quickjs.Finished {
		return nil
	}
	return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: describe(end, err)})
}

// send passes a frame of the guest on. Its body goes as it is: the host judges
// it.
func (s *server) send(token []byte, f quickjs.Frame) (last bool, err error) {
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
	if len(b)-4 > bridge.DefaultMaxFrame {
		return false, fmt.Errorf("a frame of %d bytes, the limit is %d", len(b)-4, bridge.DefaultMaxFrame)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if cap(b) <= 1<<20 { // a rare huge frame must not stay pinned
		s.buffer = b
	}
	_, err = s.out.Write(b)
	kind := bridge.Kind(f.Kind)
	return kind == bridge.Done || kind == bridge.Failed, err
}

// appendBody writes what the guest gave as JSON in the way of the bridge.
func appendBody(b []byte, f quickjs.Frame) ([]byte, error) {
	if !f.Text {
		return append(b, f.Body...), nil
	}
	value, err := bridge.FromJSON(f.Body)
	if err != nil {
		return nil, fmt.Errorf("the guest sent no JSON: %w", err)
	}
	return bridge.AppendValue(b, value)
}

// describe is the body of the last frame of a run that could not send its own.
func describe(end quickjs.End, err error) bridge.Map {
	fail := func(kind bridge.FailureKind, limit, message string) bridge.Map {
		return bridge.Map{{Key: "kind", Value: string(kind)}, {Key: "limit", Value: limit}, {Key: "message", Value: message}}
	}
	switch end {
	case quickjs.TimedOut:
		return fail(bridge.FailLimit, "wall", "its time was over")
	case quickjs.OutOfMemory:
		return fail(bridge.FailLimit, "memory", "it used more memory than it may")
	case quickjs.Cancelled:
		return fail(bridge.FailCancelled, "", "it was cancelled")
	}
	return fail(bridge.FailProgram, "", fmt.Sprintf("the JavaScript engine broke off: %.2000s", err))
}
