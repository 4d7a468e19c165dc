package py

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// Serve is the guest's side of a bridge. It sends hello, and connects interpreters,
// each for one program, until the stream ends. It forwards the frames of a run
// unchanged, because the server validates them; it inspects only those that begin
// and end a run.
func (m serviceMachine) Serve(ctx context.Context, stream io.ReadWriter) error {
	s := &server{machine: m.Machine, wire: bridge.NewWire(stream), out: stream, runs: make(chan job)}
	hello := bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}, {Key: "guest", Value: Version}}
	if err := s.wire.Write(bridge.Frame{Kind: bridge.Hello, Body: hello}); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		s.readErr = s.read(stream)
		stop() // a program must not continue without its server
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
	wire    *bridge.Wire
	out     io.Writer
	buffer  []byte // of the outgoing frame
	runs    chan job
	readErr error // of the reader, once runs is closed
}

// job is one run: the guest's part, and the parts of its start that this side uses.
type job struct {
	inbox   *wasm.Inbox[[]byte]
	token   []byte
	memory  int64
	cpu     time.Duration
	session string
	state   []byte
}

// read handles the server's frames: a start begins a run, others are for the run
// under way. It never waits for a run, so that it always sees a cancellation.
func (s *server) read(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 64<<10)
	inbox := wasm.NewInbox[[]byte]()
	for {
		data, err := readFrame(in)
		if err != nil {
			inbox.Cancel()
			return err
		}
		kind, err := kindOf(data[4:])
		if err != nil {
			return err
		}
		switch kind {
		case bridge.Start:
			inbox = wasm.NewInbox[[]byte]()
			j, err := readStart(inbox, data[4:])
			if err != nil {
				return err
			}
			s.runs <- j
		case bridge.Cancel:
			inbox.Cancel()
		case bridge.Result:
			putFrame(inbox, data[4:])
		default:
			return fmt.Errorf("unexpected %s frame", kind)
		}
	}
}

// readFrame reads one frame, including its length.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > bridge.MaxFrame {
		return nil, fmt.Errorf("a frame has %d bytes, more than the limit of %d", size, bridge.MaxFrame)
	}
	data := make([]byte, 4+size)
	_, err = io.ReadFull(in, data)
	return data, err
}

// kindOf returns the kind of a frame: the first of an array of four, in one or two
// bytes.
func kindOf(frame []byte) (bridge.Kind, error) {
	switch {
	case len(frame) > 2 && frame[0] == 0x84 && frame[1] < 24:
		return bridge.Kind(frame[1]), nil
	case len(frame) > 3 && frame[0] == 0x84 && frame[1] == 24:
		return bridge.Kind(frame[2]), nil
	}
	return 0, errors.New("a frame that begins with no header")
}

// putFrame sends the guest a frame, marshalled if marshal can hold it.
func putFrame(inbox *wasm.Inbox[[]byte], frame []byte) {
	if value, err := bridge.DecodeValue(frame); err == nil {
		if list, ok := value.([]bridge.Value); ok {
			putList(inbox, list)
			return
		}
	}
	inbox.Put(withLength(append(make([]byte, 4), frame...))) // the guest validates it
}

func putList(inbox *wasm.Inbox[[]byte], list []bridge.Value) {
	data, err := appendMarshals(appendSize(append(make([]byte, 4), tupleByte), len(list)), list)
	if err != nil {
		data, _ = bridge.AppendValue(make([]byte, 4), list) // cannot fail for decoded values
	}
	inbox.Put(withLength(data))
}

// withLength writes the length of a frame into its first four bytes.
func withLength(data []byte) []byte {
	binary.BigEndian.PutUint32(data, uint32(len(data)-4))
	return data
}

// readStart reads a start frame. A state in it is not passed to the guest.
func readStart(inbox *wasm.Inbox[[]byte], frame []byte) (job, error) {
	value, err := bridge.DecodeValue(frame)
	list, ok := value.([]bridge.Value)
	if err != nil || !ok || len(list) != 4 {
		return job{}, fmt.Errorf("read the start of a run: %w", err)
	}
	body, _ := list[3].(bridge.Map)
	j := job{inbox: inbox, session: body.Text("session")}
	j.token, _ = list[2].([]byte)
	j.state, _ = body.Get("state").([]byte)
	limits, _ := body.Get("limits").(bridge.Map)
	j.memory, j.cpu = limits.Int("memory"), time.Duration(limits.Int("cpu"))*time.Millisecond
	list[3] = slices.DeleteFunc(body, func(m bridge.Member) bool { return m.Key == "state" })
	putList(inbox, list)
	return j, nil
}

func (s *server) run(ctx context.Context, j job) error {
	isolate, err := s.machine.Isolate(ctx)
	if err != nil {
		return err
	}
	defer isolate.Release()
	if refused := s.machine.Resume(isolate, Name, j.state); refused != nil {
		return s.fail(j, refused)
	}
	var last []byte // held back until the state of the session is known
	end, err := isolate.Run(ctx, Port{
		Inbox: j.inbox, Memory: j.memory, CPU: j.cpu,
		Send: func(frame []byte) (bool, error) {
			if len(frame) > 0 && frame[0] == tupleByte {
				return s.sendMarshalled(j, frame)
			}
			kind, err := kindOf(frame)
			if err != nil {
				return false, err
			}
			ends := kind == bridge.Done || kind == bridge.Failed
			if ends && j.session != "" {
				last = slices.Clone(frame)
				return true, nil
			}
			return ends, s.send(frame)
		},
		Print: func(stream string, text []byte) error {
			body := bridge.Map{{Key: "stream", Value: stream}, {Key: "text", Value: strings.ToValidUTF8(string(text), "\uFFFD")}}
			return s.wire.Write(bridge.Frame{Kind: bridge.Print, Token: j.token, Body: body})
		},
	})
	if end != Finished {
		return s.fail(j, describe(end, err))
	}
	if last != nil {
		return s.finish(isolate, last)
	}
	return nil
}

func (s *server) finish(isolate *Isolate, last []byte) error {
	value, err := bridge.DecodeValue(last)
	list, ok := value.([]bridge.Value)
	if err != nil || !ok || len(list) != 4 {
		return s.send(last) // the server validates it
	}
	kind, _ := list[0].(int64)
	frame := bridge.Frame{Kind: bridge.Kind(kind)}
	frame.Token, _ = list[2].([]byte)
	frame.Body, _ = list[3].(bridge.Map)
	return s.machine.FinishSession(frame, isolate.Save, s.wire.Write)
}

func (s *server) fail(j job, body bridge.Map) error {
	return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: j.token, Body: body})
}

// send forwards a frame of the guest.
func (s *server) send(frame []byte) error {
	b := binary.BigEndian.AppendUint32(s.buffer[:0], uint32(len(frame)))
	b = append(b, frame...)
	if cap(b) <= 1<<20 { // do not keep the memory of a rare huge frame
		s.buffer = b
	}
	_, err := s.out.Write(b)
	return err
}

// sendMarshalled forwards a frame that the guest has marshalled.
func (s *server) sendMarshalled(j job, frame []byte) (last bool, err error) {
	f, err := readMarshalled(frame)
	if err != nil || j.session != "" {
		return false, ErrRefused
	}
	f.Token = j.token
	err = s.wire.Write(f)
	if _, ok := errors.AsType[*bridge.TooLargeError](err); ok {
		return false, ErrRefused
	}
	return f.Kind == bridge.Done || f.Kind == bridge.Failed, err
}

// describe returns the body of the last frame for a run that could not send its own.
func describe(end End, err error) bridge.Map {
	f := &bridge.Failure{Kind: bridge.FailProgram, Message: fmt.Sprintf("the interpreter broke off: %.2000s", err)}
	switch end {
	case OutOfCPU:
		f = &bridge.Failure{Kind: bridge.FailLimit, Limit: "cpu", Message: "it used all its CPU time"}
	case Cancelled:
		f = &bridge.Failure{Kind: bridge.FailCancelled, Message: "it was cancelled"}
	}
	return bridge.FailureBody(f)
}
