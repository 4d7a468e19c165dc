package module

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// Serve is the guest's side of a bridge after its hello. It runs modules, one after
// the other, until the stream ends.
func (m *Machine) Serve(ctx context.Context, stream io.ReadWriter) error {
	s := &server{machine: m, wire: bridge.NewWire(stream), runs: make(chan job)}
	s.encoder = bridge.NewWire(&s.encoded)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		s.readErr = s.read()
		stop() // a module must not continue without its server
		close(s.runs)
	}()
	for j := range s.runs {
		if err := s.run(ctx, j); err != nil && ctx.Err() == nil {
			return err
		}
	}
	if errors.Is(s.readErr, io.EOF) {
		return nil
	}
	return s.readErr
}

type server struct {
	machine *Machine
	wire    *bridge.Wire // to the server
	runs    chan job
	readErr error // of the reader, once runs is closed

	encoder *bridge.Wire // belongs, with encoded, to the reader
	encoded bytes.Buffer
}

// job is one run.
type job struct {
	program bridge.Program
	token   []byte
	start   []byte // its start frame as sent to the module
	inbox   *wasm.Inbox[[]byte]
}

// read handles the server's frames: a start begins a run, others are for the run
// under way. It never waits for a module, so that it always sees a cancellation.
func (s *server) read() error {
	inbox, token := wasm.NewInbox[[]byte](), []byte(nil)
	for {
		f, _, err := s.wire.Read()
		if err != nil {
			inbox.Cancel()
			return err
		}
		switch f.Kind {
		case bridge.Start:
			j := job{program: bridge.ReadProgram(f.Body), token: f.Token, inbox: wasm.NewInbox[[]byte]()}
			inbox, token = j.inbox, j.token
			f.Body = slices.DeleteFunc(f.Body, func(m bridge.Member) bool { return m.Key == "module" || m.Key == "state" })
			if j.start, err = s.encode(f); err != nil {
				return err
			}
			s.runs <- j
		case bridge.Cancel:
			inbox.Cancel()
		case bridge.Result:
			if !bytes.Equal(f.Token, token) {
				continue // for a run that is over
			}
			frame, err := s.encode(f)
			if err != nil {
				return err
			}
			inbox.Put(frame)
		default:
			return fmt.Errorf("unexpected %s frame", f.Kind)
		}
	}
}

// encode returns a frame as bytes.
func (s *server) encode(f bridge.Frame) ([]byte, error) {
	s.encoded.Reset()
	err := s.encoder.Write(f)
	return bytes.Clone(s.encoded.Bytes()), err
}

// run runs a module and reports how it ended. An error ends the worker.
func (s *server) run(ctx context.Context, j job) error {
	last := func(kind bridge.Kind, body bridge.Map) error {
		return s.wire.Write(bridge.Frame{Kind: kind, Token: j.token, Body: body})
	}
	if len(j.program.Module) > 0 {
		if failure := s.machine.compile(ctx, j.program.Module); failure != nil {
			return last(bridge.Failed, bridge.FailureBody(failure))
		}
	}
	if len(s.machine.compiled) == 0 {
		return last(bridge.Failed, bridge.FailureBody(Check(nil)))
	}
	if j.program.Language == LanguageCompile {
		return last(bridge.Done, nil)
	}
	r := newRun(ctx, j, s.wire.Write)
	err := s.machine.execute(ctx, r)
	if r.bridgeFile.ended {
		return nil
	}
	if r.err != nil && !errors.Is(r.err, errGarbage) {
		return r.err
	}
	exit, failure := r.failure(err)
	if err := r.prints.end(); err != nil {
		return err
	}
	tail := bridge.Member{Key: "exit", Value: int64(exit)}
	if failure != nil {
		return last(bridge.Failed, append(bridge.FailureBody(failure), tail))
	}
	return last(bridge.Done, bridge.Map{{Key: "value"}, tail})
}
