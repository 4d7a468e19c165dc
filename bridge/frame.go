package bridge

import (
	"bufio"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
)

// Version is the protocol version of this package. The guest's hello lists the
// versions that it speaks; the server picks the highest that both know.
const Version = 1

// Kind is the type of a frame.
type Kind uint8

// The kinds of frames. The guest sends those below 32, the server the others.
const (
	Hello    Kind = 1  // {versions: [int], guest: text}; token: the one given to the guest out of band
	Call     Kind = 10 // {tool: text, arguments: map} → result
	Chain    Kind = 11 // {steps: [map]} → result
	Search   Kind = 12 // {query: text, limit: int} → result, a list of tools
	Describe Kind = 13 // {tool: text, level: text} → result
	Put      Kind = 14 // {name, media_type: text, data: bytes} → result, a handle
	Get      Kind = 15 // {handle: text, offset, length: int} → result {data, media_type, size}
	Out      Kind = 16 // a line to the network, see [Lines]: one of {to: text}, {data: bytes}, {taken: int}, {end: true}, {close: true}
	Print    Kind = 20 // {stream: "stdout" or "stderr", text}
	Progress Kind = 21 // {done, total: number, message: text}
	Log      Kind = 22 // {level, message: text, fields: map}
	Done     Kind = 30 // {value, state: bytes, exit: int, usage: map}
	Failed   Kind = 31 // {kind, type, message, file: text, line, column: int, trace: text, tool: map}

	Start  Kind = 32 // the program, see [Program]; token: the run's, to be repeated
	Result Kind = 33 // {value} or {error: map}; id: the question's
	Cancel Kind = 34 // {reason: text}
	Refuse Kind = 35 // {reason: text}: the hello was not accepted
	In     Kind = 36 // of a line: one of {open: true}, {error: map}, {data: bytes}, {taken: int}, {end: true}, {close: true}
	Alive  Kind = 37 // {}: the server still runs; sent every [AlivePeriod] if the hello has alive: true
)

var kindNames = map[Kind]string{
	Hello: "hello", Call: "call", Chain: "chain", Search: "search", Describe: "describe", Put: "put", Get: "get", Out: "out",
	Print: "print", Progress: "progress", Log: "log", Done: "done", Failed: "error",
	Start: "start", Result: "result", Cancel: "cancel", Refuse: "refuse", Alive: "alive", In: "in",
}

func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Frame is one message.
type Frame struct {
	Kind  Kind
	ID    uint64
	Token []byte
	Body  Map
}

// MaxFrame is the largest frame, in bytes.
const MaxFrame = 16 << 20

// maxToken is well above the 16 bytes of a run's token.
const maxToken = 64

// ErrProtocol is wrapped by every error about a breach of the protocol. After
// one, the peer cannot be trusted with another frame.
var ErrProtocol = errors.New("the bridge protocol was violated")

func protocolError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Wire reads and writes frames. One goroutine may read while others write.
type Wire struct {
	in    *bufio.Reader
	token atomic.Pointer[[]byte] // of the frames that are read; nil if any may be

	mu  sync.Mutex // guards out and buf
	out io.Writer
	buf []byte
}

// NewWire returns a Wire on stream.
func NewWire(stream io.ReadWriter) *Wire {
	return &Wire{in: bufio.NewReaderSize(stream, 32<<10), out: stream}
}

// Read returns the next frame and its size in bytes. io.EOF means that the
// stream ended between frames.
func (w *Wire) Read() (Frame, int, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, 0, protocolError("the stream ends within a frame's length")
		}
		return Frame{}, 0, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > MaxFrame {
		return Frame{}, 0, protocolError("a frame has %d bytes, more than the limit of %d", size, MaxFrame)
	}
	// A guest may announce much and send little, so the buffer grows with the data received.
	data, err := readAll(w.in, size)
	if err != nil {
		return Frame{}, 0, err
	}
	f, err := w.decodeFrame(data)
	return f, size + len(head), err
}

func readAll(r io.Reader, size int) ([]byte, error) {
	const step = 64 << 10
	data := make([]byte, 0, min(size, step))
	for len(data) < size {
		n := min(size-len(data), max(step, len(data)))
		data = append(data, make([]byte, n)...)
		if _, err := io.ReadFull(r, data[len(data)-n:]); err != nil {
			return nil, protocolError("the stream ends within a frame")
		}
	}
	return data, nil
}

func (w *Wire) decodeFrame(data []byte) (Frame, error) {
	d := decoder{data: data}
	major, n, err := d.head()
	if err != nil || major != majorArray || n != 4 {
		return Frame{}, protocolError("a frame must be an array of four")
	}
	var f Frame
	major, n, err = d.head()
	if err != nil || major != majorUint || n > math.MaxUint8 {
		return Frame{}, protocolError("a frame must begin with its kind")
	}
	f.Kind = Kind(n)
	if major, f.ID, err = d.head(); err != nil || major != majorUint {
		return Frame{}, protocolError("a frame's id must be an unsigned integer")
	}
	if major, n, err = d.head(); err != nil || major != majorBytes || n > maxToken {
		return Frame{}, protocolError("a frame's token must be at most %d bytes", maxToken)
	}
	if f.Token, err = d.next(n); err != nil {
		return Frame{}, protocolError("%v", err)
	}
	// Check the token first, so that a frame without it costs no memory for its body.
	if token := w.token.Load(); token != nil && subtle.ConstantTimeCompare(f.Token, *token) != 1 {
		return Frame{}, protocolError("a %s frame with the token of another run", f.Kind)
	}
	body, err := d.value(0)
	if err != nil {
		return Frame{}, protocolError("byte %d of a %s frame: %v", d.pos, f.Kind, err)
	}
	f.Body, _ = body.(Map)
	if f.Body == nil || d.pos != len(data) {
		return Frame{}, protocolError("a frame must end with its body, a map")
	}
	return f, nil
}

// Write sends one whole frame. It refuses a frame over the limit before it sends
// a byte, so that the stream stays usable.
func (w *Wire) Write(f Frame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := append(w.buf[:0], 0, 0, 0, 0)
	b = appendHead(b, majorArray, 4)
	b = appendHead(b, majorUint, uint64(f.Kind))
	b = appendHead(b, majorUint, f.ID)
	b = append(appendHead(b, majorBytes, uint64(len(f.Token))), f.Token...)
	if f.Body == nil {
		f.Body = Map{}
	}
	b, err := appendValue(b, f.Body, 0)
	if err != nil {
		return &unsendableError{f.Kind, err}
	}
	if len(b)-4 > MaxFrame {
		return &TooLargeError{Kind: f.Kind, Size: len(b) - 4, Limit: MaxFrame}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if cap(b) <= 1<<20 { // do not keep the memory of a rare huge frame
		w.buf = b
	}
	_, err = w.out.Write(b)
	return err
}

// unsendableError says that a frame was not sent because of a value in it.
type unsendableError struct {
	kind Kind
	err  error
}

func (e *unsendableError) Error() string { return fmt.Sprintf("%s frame%v", e.kind, e.err) }

func (e *unsendableError) Unwrap() error { return e.err }

// TooLargeError reports that a frame was not sent because it is too large.
type TooLargeError struct {
	Kind        Kind
	Size, Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a %s frame of %d bytes, the limit is %d: keep large data in an artifact and pass its handle", e.Kind, e.Size, e.Limit)
}
