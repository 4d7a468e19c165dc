package bridge

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// Version is the protocol version of this package. A guest says in hello which
// versions it speaks; the host picks the highest that both know.
const Version = 1

// Kind says what a frame is for.
type Kind uint8

// The kinds. A guest sends those below 32, the host the others.
const (
	Hello    Kind = 1  // {versions: [int], guest: text}; token: the one given to the guest out of band
	Call     Kind = 10 // {tool: text, arguments: map} → result
	Chain    Kind = 11 // {steps: [map]} → result
	Search   Kind = 12 // {query: text, limit: int} → result, a list of tools
	Describe Kind = 13 // {tool: text, level: text} → result
	Put      Kind = 14 // {name, media_type: text, data: bytes} → result, a handle
	Get      Kind = 15 // {handle: text, offset, length: int} → result {data, media_type, size}
	Out      Kind = 16 // a line to the outside, see [Lines]: one of {to: text}, {data: bytes}, {taken: int}, {end: true}, {close: true}
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
)

var kindNames = map[Kind]string{
	Hello: "hello", Call: "call", Chain: "chain", Search: "search", Describe: "describe", Put: "put", Get: "get", Out: "out",
	Print: "print", Progress: "progress", Log: "log", Done: "done", Failed: "error",
	Start: "start", Result: "result", Cancel: "cancel", Refuse: "refuse", In: "in",
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

// DefaultMaxFrame is the largest frame, in bytes, unless the options say less.
const DefaultMaxFrame = 16 << 20

// maxToken is well above the 16 bytes of a run's token.
const maxToken = 64

// ErrProtocol is what every breach of the protocol wraps: the peer is not to
// be trusted with another frame.
var ErrProtocol = errors.New("the bridge protocol was broken")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

// Wire reads and writes frames. One goroutine may read while others write.
type Wire struct {
	in       *bufio.Reader
	maxFrame int

	mu  sync.Mutex // guards out and buf
	out io.Writer
	buf []byte
}

// NewWire frames a stream; maxFrame 0 means [DefaultMaxFrame].
func NewWire(stream io.ReadWriter, maxFrame int) *Wire {
	if maxFrame <= 0 {
		maxFrame = DefaultMaxFrame
	}
	return &Wire{in: bufio.NewReaderSize(stream, 32<<10), out: stream, maxFrame: maxFrame}
}

// Read returns the next frame and its size in bytes. io.EOF means that the
// stream ended between frames.
func (w *Wire) Read() (Frame, int, error) {
	var head [4]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return Frame{}, 0, broken("the stream ends within a frame's length")
		}
		return Frame{}, 0, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size > w.maxFrame {
		return Frame{}, 0, broken("a frame of %d bytes, the limit is %d", size, w.maxFrame)
	}
	// A guest may announce much and send little: room grows with what arrives.
	data, err := readAll(w.in, size)
	if err != nil {
		return Frame{}, 0, err
	}
	f, err := decodeFrame(data)
	return f, size + len(head), err
}

func readAll(r io.Reader, size int) ([]byte, error) {
	const step = 64 << 10
	data := make([]byte, 0, min(size, step))
	for len(data) < size {
		n := min(size-len(data), max(step, len(data)))
		data = append(data, make([]byte, n)...)
		if _, err := io.ReadFull(r, data[len(data)-n:]); err != nil {
			return nil, broken("the stream ends within a frame")
		}
	}
	return data, nil
}

func decodeFrame(data []byte) (Frame, error) {
	d := decoder{data: data}
	major, n, err := d.head()
	if err != nil || major != majorArray || n != 4 {
		return Frame{}, broken("a frame is an array of four")
	}
	var f Frame
	major, n, err = d.head()
	if err != nil || major != majorUint || n > math.MaxUint8 {
		return Frame{}, broken("a frame begins with its kind")
	}
	f.Kind = Kind(n)
	if major, f.ID, err = d.head(); err != nil || major != majorUint {
		return Frame{}, broken("a frame's id is an unsigned integer")
	}
	if major, n, err = d.head(); err != nil || major != majorBytes || n > maxToken {
		return Frame{}, broken("a frame's token is at most %d bytes", maxToken)
	}
	if f.Token, err = d.take(n); err != nil {
		return Frame{}, broken("%v", err)
	}
	body, err := d.value(0)
	if err != nil {
		return Frame{}, broken("byte %d of a %s frame: %v", d.pos, f.Kind, err)
	}
	f.Body, _ = body.(Map)
	if f.Body == nil || d.pos != len(data) {
		return Frame{}, broken("a frame ends with its body, a map")
	}
	return f, nil
}

// Write sends one frame, whole. A frame over the limit is refused before a
// byte of it is sent, so that the stream stays usable.
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
		return fmt.Errorf("%s frame%w", f.Kind, err)
	}
	if len(b)-4 > w.maxFrame {
		return &TooLargeError{Kind: f.Kind, Size: len(b) - 4, Limit: w.maxFrame}
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if cap(b) <= 1<<20 { // a rare huge frame must not stay pinned
		w.buf = b
	}
	_, err = w.out.Write(b)
	return err
}

// TooLargeError says that a frame was not sent because of its size.
type TooLargeError struct {
	Kind        Kind
	Size, Limit int // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("a %s frame of %d bytes, the limit is %d: keep large data in an artifact and pass its handle", e.Kind, e.Size, e.Limit)
}
