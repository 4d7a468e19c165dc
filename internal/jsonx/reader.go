package jsonx

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// A Kind is the kind of a JSON value, or of the end of an array or object.
type Kind byte

// Kinds that [Reader.Peek] returns.
const (
	Invalid Kind = 0
	Null    Kind = 'n'
	False   Kind = 'f'
	True    Kind = 't'
	String  Kind = '"'
	Number  Kind = '0'
	Object  Kind = '{'
	Array   Kind = '['
	end     Kind = ']' // of an array or object
)

// A Reader walks one document value by value and builds nothing. The first
// error sticks: from then on Peek returns Invalid, More returns false, the other methods do
// nothing, and Finish returns the error. Callers need not check in between.
//
// A Reader must be used by one goroutine. The bytes that Text and Number return are valid
// until the next call.
type Reader struct {
	dec     jsontext.Decoder
	src     bytes.Buffer
	data    []byte
	limits  Limits
	scratch []byte
	err     error
}

// readers keeps the decoder's stacks between documents; without it each
// document costs five allocations.
var readers = sync.Pool{New: func() any { return new(Reader) }}

// NewReader starts to read data, which must not change until Finish.
func NewReader(data []byte, limits Limits) *Reader {
	r := readers.Get().(*Reader)
	r.data, r.limits, r.err = data, limits.withDefaults(), nil
	if len(data) > r.limits.Bytes {
		r.err = newSyntaxError(data, r.limits.Bytes, "",
			fmt.Sprintf("document of %d bytes, the limit is %d", len(data), r.limits.Bytes),
			"send less, or send a reference to the data")
		return r
	}
	r.src = *bytes.NewBuffer(data)
	r.dec.Reset(&r.src)
	return r
}

// Finish returns the first error; text after the document is an error, too. r must not be
// used afterwards.
func (r *Reader) Finish() error {
	if r.err == nil {
		r.expectEnd()
	}
	err := r.err
	r.Abandon()
	return err
}

// Abandon releases r without reading the rest of the document. Every Reader needs exactly one
// call of Finish or Abandon.
func (r *Reader) Abandon() {
	large := len(r.data) > maxPinned
	r.data, r.src, r.err = nil, bytes.Buffer{}, nil
	if large {
		r.dec.Reset(&r.src)
	}
	if cap(r.scratch) <= 64<<10 { // a rare huge string must not stay pinned
		readers.Put(r)
	}
}

func (r *Reader) expectEnd() {
	offset := int(r.dec.InputOffset())
	started := offset > 0
	switch _, err := r.dec.ReadToken(); {
	case err == io.EOF && started:
	case err == nil, started && r.dec.StackDepth() == 0:
		rest := bytes.TrimLeft(r.data[offset:], " \t\r\n")
		r.err = newSyntaxError(r.data, len(r.data)-len(rest), "",
			"text after the end of the document", "send exactly one document")
	default:
		r.fail(err)
	}
}

func (r *Reader) fail(err error) {
	if r.err == nil {
		r.err = describe(r.data, err)
	}
}

// failAtToken sets an error of our own at the token that was just read.
func (r *Reader) failAtToken(reason, hint string) {
	offset := max(int(r.dec.InputOffset())-1, 0)
	r.err = newSyntaxError(r.data, offset, string(r.dec.StackPointer()), reason, hint)
}

// Peek returns the kind of the next value without reading it.
func (r *Reader) Peek() Kind {
	if r.err != nil {
		return Invalid
	}
	switch k := Kind(r.dec.PeekKind()); k {
	case '}', ']':
		return end
	default:
		return k
	}
}

// Enter enters the object or array that Peek returned.
func (r *Reader) Enter() {
	r.token()
	if r.err == nil && r.dec.StackDepth() > r.limits.Depth {
		r.failAtToken(fmt.Sprintf("more than %d levels of nesting", r.limits.Depth), "send flatter data")
	}
}

// More reports whether the object or array has another member or element.
func (r *Reader) More() bool {
	switch r.Peek() {
	case end:
		return false
	case Invalid:
		r.token() // makes the decoder report what Peek found
		return false
	default:
		return true
	}
}

// Leave leaves the object or array after its last element.
func (r *Reader) Leave() { r.token() }

// Text reads a string or the name of a member, unescaped.
func (r *Reader) Text() []byte {
	if r.Peek() != String {
		r.token() // lets the decoder say why no string may be missing here
		return nil
	}
	quoted := r.scalar()
	if len(quoted) < 2 {
		return nil
	}
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	text, err := jsontext.AppendUnquote(r.scratch[:0], quoted)
	if err != nil {
		r.fail(err)
	}
	r.scratch = text
	return text
}

// Number reads a number as it is written.
func (r *Reader) Number() []byte { return r.scalar() }

// Value reads the next value of any kind with all checks and returns its text. It shares the memory of the document and stays valid.
func (r *Reader) Value() []byte {
	if r.Peek() == Invalid {
		r.token()
		return nil
	}
	start := r.Offset()
	r.Skip()
	if r.err != nil {
		return nil
	}
	end := r.Offset()
	rest := bytes.TrimLeft(r.data[start:end], " \t\r\n:,")
	return rest[:len(rest):len(rest)]
}

// Offset returns the number of bytes read of the document.
func (r *Reader) Offset() int {
	if r.err != nil {
		return 0
	}
	return int(r.dec.InputOffset())
}

// Skip reads the next value of any kind with all checks.
func (r *Reader) Skip() {
	for depth := 0; r.err == nil; {
		switch r.Peek() {
		case Object, Array:
			r.Enter()
			depth++
		case end:
			r.Leave()
			depth--
		default:
			r.token()
		}
		if depth <= 0 {
			return
		}
	}
}

func (r *Reader) token() {
	if r.err != nil {
		return
	}
	if _, err := r.dec.ReadToken(); err != nil {
		r.fail(err)
	}
}

func (r *Reader) scalar() []byte {
	if r.err != nil {
		return nil
	}
	value, err := r.dec.ReadValue()
	if err != nil {
		r.fail(err)
	}
	return value
}

// Defaults of [Limits].
const (
	DefaultBytes = 4 << 20
	DefaultDepth = 64
)

// maxDepth stays below the 10,000 levels at which jsontext itself gives up.
const maxDepth = 9_999

// Limits bound one document. The zero value means the defaults.
type Limits struct {
	// Bytes is the largest length of the text, [DefaultBytes] (4 MiB) if zero.
	Bytes int
	// Depth is how many objects and arrays may be open at once,
	// [DefaultDepth] (64) if zero and never more than 9,999.
	Depth int
}

func (l Limits) withDefaults() Limits {
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Depth <= 0 {
		l.Depth = DefaultDepth
	}
	l.Depth = min(l.Depth, maxDepth)
	return l
}
