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
	s := &server{machine: m, wire: bridge.NewWire(stream, 0), out: stream, runs: make(chan *quickjs.Inbox)}
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
	for inbox := range s.runs {
		if err := s.run(ctx, inbox); err != nil && ctx.Err() == nil {
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
	runs    chan *quickjs.Inbox
	readErr error // of the reader, once runs is closed
}

// read sorts the host's frames: a start begins a run, others are for the run
// under way. It never waits for a run, so that it always sees a cancellation.
func (s *server) read(stream io.Reader) error {
	in := bufio.NewReaderSize(stream, 64<<10)
	inbox := quickjs.NewInbox()
	for {
		frame, err := readFrame(in)
		if err != nil {
			inbox.Cancel()
			return err
		}
		h, err := readHeader(frame)
		if err != nil {
			return err
		}
		switch h.kind {
		case bridge.Start:
			inbox = quickjs.NewInbox()
			inbox.Put(frame)
			s.runs <- inbox
		case bridge.Cancel:
			inbox.Cancel()
		case bridge.Result:
			inbox.Put(frame)
		default:
			return fmt.Errorf("a guest is not sent %s", h.kind)
		}
	}
}

func (s *server) run(ctx context.Context, inbox *quickjs.Inbox) error {
	isolate, err := s.machine.Isolate(ctx)
	if err != nil {
		return err
	}
	defer isolate.Release()
	start, err := readHeader(inbox.First())
	if err != nil {
		return err
	}
	end, err := isolate.Run(ctx, quickjs.Port{Inbox: inbox, MaxFrame: bridge.DefaultMaxFrame, Send: s.send})
	if end == quickjs.Finished {
		return nil
	}
	return s.wire.Write(bridge.Frame{Kind: bridge.Failed, Token: start.token, Body: describe(end, err)})
}

// send passes a frame of the guest on, as it is: the host judges it.
func (s *server) send(frame []byte) (last bool, err error) {
	if len(frame) < 4 || int(binary.BigEndian.Uint32(frame)) != len(frame)-4 {
		return false, errors.New("the guest sent a frame of another length than it says")
	}
	h, err := readHeader(frame)
	if err != nil {
		return false, err
	}
	_, err = s.out.Write(frame)
	return h.kind == bridge.Done || h.kind == bridge.Failed, err
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

// readFrame reads one frame with its length.
func readFrame(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(4)
	if err != nil {
		return nil, err
	}
	size := binary.BigEndian.Uint32(head)
	if size > bridge.DefaultMaxFrame {
		return nil, fmt.Errorf("a frame of %d bytes, the limit is %d", size, bridge.DefaultMaxFrame)
	}
	frame := make([]byte, 4+size)
	_, err = io.ReadFull(in, frame)
	return frame, err
}

// header is the beginning of a frame, all that this side looks at.
type header struct {
	kind  bridge.Kind
	token []byte
}

func readHeader(frame []byte) (header, error) {
	h := reader{rest: frame}
	h.skip(4)
	if h.number(0x80) != 4 {
		h.bad = true
	}
	kind := h.number(0)
	h.number(0)
	token := h.take(h.number(0x40))
	if h.bad || kind > 255 {
		return header{}, errors.New("a frame that begins with no header")
	}
	return header{bridge.Kind(kind), token}, nil
}

// reader reads the few CBOR heads of a header.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) skip(n uint64) { r.take(n) }

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) number(major byte) uint64 {
	first := r.take(1)
	if r.bad || first[0]&0xe0 != major {
		r.bad = true
		return 0
	}
	info := first[0] & 0x1f
	if info < 24 {
		return uint64(info)
	}
	if info > 27 {
		r.bad = true
		return 0
	}
	var n uint64
	for _, b := range r.take(1 << (info - 24)) {
		n = n<<8 | uint64(b)
	}
	return n
}
