package protocol

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Kind is the kind of an event.
type Kind int

// The kinds of events, numbered as in the protocol.
const (
	Print          Kind = 1
	FunctionCall   Kind = 2
	SystemCall     Kind = 3
	NameLookup     Kind = 4
	ResolveFutures Kind = 5
	Complete       Kind = 6
	Raised         Kind = 7
	TypingError    Kind = 8
	DumpResult     Kind = 9
	Ok             Kind = 10
	Fatal          Kind = 11
)

// Event is a message of a worker. Its kind determines which fields are set.
type Event struct {
	Kind Kind
	// Segments are the printed output.
	Segments []Segment
	// Name is the function called or the name looked up. Object is the object of which it
	// is a member, zero if it is a global name.
	Name   string
	Object ObjectID
	Call   uint32
	Args   []any
	Named  []Pair
	// Pending are the calls whose futures the program waits for.
	Pending []uint32
	Value   any
	Error   *Exception
	Message string
	State   []byte
	// CPUMicros is the time that the code of this feed has run, in microseconds.
	CPUMicros uint64
	// System is the number of a system call in the protocol, Seconds the length
	// of a sleep and Size that of random bytes.
	System  int
	Seconds float64
	Size    uint64
	// Bytes is the length of the frame.
	Bytes int
	// TooManyValues means that the event has more than [MaxNodes] values. They were not read.
	TooManyValues bool
}

// Segment is a run of output on one stream.
type Segment struct {
	Stderr bool
	Text   string
}

// eachField calls f with each field of a message. n is the value of a numeric field, and b that
// of a field with a length.
func eachField(message []byte, f func(number protowire.Number, n uint64, b []byte) error) error {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return malformed(size)
		}
		message = message[size:]
		var n uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			n, size = protowire.ConsumeFixed64(message)
		case protowire.BytesType:
			b, size = protowire.ConsumeBytes(message)
			if b == nil {
				b = []byte{}
			}
		default:
			size = protowire.ConsumeFieldValue(number, kind, message)
		}
		if size < 0 {
			return malformed(size)
		}
		if err := f(number, n, b); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}

func malformed(size int) error {
	return fmt.Errorf("the Monty worker sent what is no message: %w", protowire.ParseError(size))
}

func parseEvent(frame []byte) (e Event, err error) {
	err = eachField(frame, func(number protowire.Number, n uint64, b []byte) error {
		switch {
		case number == 24:
			e.CPUMicros = n
		case number < 20 && b != nil:
			e.Kind = Kind(number)
			return e.read(b)
		}
		return nil
	})
	if err == nil && e.Kind == 0 {
		err = fmt.Errorf("the Monty worker sent an event of no kind")
	}
	return e, err
}

// read reads the body of an event. Its values are at the end; the fields before refer to them by
// index.
func (e *Event) read(body []byte) error {
	err := e.readFields(body)
	if errors.Is(err, errTooManyValues) {
		e.Args, e.Named, e.TooManyValues = nil, nil, true
		return e.readCallID(body)
	}
	return err
}

func (e *Event) readFields(body []byte) error {
	all, err := e.values(body)
	if err != nil {
		return err
	}
	return eachField(body, func(number protowire.Number, n uint64, b []byte) error {
		switch e.Kind {
		case Print:
			if number == 1 {
				return e.segment(b)
			}
		case FunctionCall:
			return e.call(all, number, n, b)
		case SystemCall:
			return e.system(number, n, b)
		case NameLookup:
			switch number {
			case 1:
				e.Name = string(b)
			case 2:
				return readID(b, &e.Object)
			}
		case ResolveFutures:
			if number != 1 {
				return nil
			}
			return indexes(n, b, func(id uint64) error {
				e.Pending = append(e.Pending, uint32(id))
				return nil
			})
		case Complete:
			if number == 1 {
				e.Value, err = all.at(n)
			}
		case Raised:
			e.Error, err = readException(b)
		case DumpResult:
			e.State = b
		case Fatal, TypingError:
			e.Message = string(b)
		}
		return err
	})
}

// readCallID reads only the id of a call with too many values.
func (e *Event) readCallID(body []byte) error {
	if e.Kind != FunctionCall {
		return nil
	}
	return eachField(body, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			e.Name = string(b)
		case 4:
			e.Call = uint32(n)
		case 5:
			return readID(b, &e.Object)
		}
		return nil
	})
}

// values reads the arena of an event that has one.
func (e *Event) values(body []byte) (all *values, err error) {
	all = &values{}
	field := map[Kind]protowire.Number{FunctionCall: 7, Complete: 2}[e.Kind]
	if field == 0 {
		return all, nil
	}
	err = eachField(body, func(number protowire.Number, _ uint64, b []byte) (err error) {
		if number == field {
			all, err = readArena(b)
		}
		return err
	})
	if err == nil && e.Kind == Complete {
		e.Value, err = all.at(0) // an index of 0 is not sent
	}
	return all, err
}

func (e *Event) segment(b []byte) error {
	var s Segment
	err := eachField(b, func(number protowire.Number, n uint64, b []byte) error {
		switch number {
		case 1:
			s.Stderr = n == 2
		case 2:
			s.Text = string(b)
		}
		return nil
	})
	e.Segments = append(e.Segments, s)
	return err
}

func (e *Event) call(all *values, number protowire.Number, n uint64, b []byte) error {
	switch number {
	case 1:
		e.Name = string(b)
	case 2:
		return indexes(n, b, func(index uint64) error {
			v, err := all.use(index)
			e.Args = append(e.Args, v)
			return err
		})
	case 3:
		p, err := all.readPair(b)
		e.Named = append(e.Named, p)
		return err
	case 4:
		e.Call = uint32(n)
	case 5:
		return readID(b, &e.Object)
	}
	return nil
}

// The system calls that Toolroom answers.
const (
	Urandom    = 25
	Sleep      = 29
	AsyncSleep = 30
)

func (e *Event) system(number protowire.Number, n uint64, b []byte) error {
	switch {
	case number == 1:
		e.Call = uint32(n)
	case number == Urandom || number == Sleep || number == AsyncSleep:
		e.System = int(number)
		return eachField(b, func(number protowire.Number, n uint64, b []byte) error {
			switch {
			case number != 1:
			case e.System == Sleep || e.System == AsyncSleep:
				e.Seconds = math.Float64frombits(n)
			case e.System == Urandom:
				e.Size = n
			}
			return nil
		})
	}
	return nil
}

func readID(b []byte, id *ObjectID) error {
	return eachField(b, func(_ protowire.Number, _ uint64, b []byte) error {
		if len(b) != len(id) {
			return fmt.Errorf("the Monty worker sent an object id of %d bytes", len(b))
		}
		copy(id[:], b)
		return nil
	})
}

// Exception is a Python exception: raised, with its traceback, or a value.
type Exception struct {
	Type    string
	Message string
	Frames  []Frame // the outermost first
}

// Frame is a position in a program. Lines and columns count from 1.
type Frame struct {
	File         string
	Line, Column int
	Function     string // empty at the top level
	Text         string // the line
}

func (x *Exception) body() []byte {
	return appendText(appendText(nil, 1, x.Type), 2, x.Message)
}

func readException(body []byte) (*Exception, error) {
	x := &Exception{}
	err := eachField(body, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			x.Type = string(b)
		case 2:
			x.Message = string(b)
		case 3:
			return x.frame(b)
		}
		return nil
	})
	return x, err
}

func (x *Exception) frame(body []byte) error {
	var f Frame
	err := eachField(body, func(number protowire.Number, _ uint64, b []byte) error {
		switch number {
		case 1:
			f.File = string(b)
		case 2:
			return eachField(b, func(number protowire.Number, n uint64, _ []byte) error {
				switch number {
				case 1:
					f.Line = int(n)
				case 2:
					f.Column = int(n)
				}
				return nil
			})
		case 4:
			f.Function = string(b)
		case 5:
			f.Text = string(b)
		}
		return nil
	})
	x.Frames = append(x.Frames, f)
	return err
}
