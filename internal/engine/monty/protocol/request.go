package protocol

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolroom/toolroom/bridge"
)

// Request is an encoded ParentRequest.
type Request []byte

// request wraps the body of one kind.
func request(kind protowire.Number, body []byte) Request {
	return appendMessage(make([]byte, 0, len(body)+8), kind, body)
}

func appendMessage(b []byte, field protowire.Number, body []byte) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendBytes(b, body)
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return protowire.AppendString(b, s)
}

func appendUint(b []byte, field protowire.Number, n uint64) []byte {
	b = protowire.AppendTag(b, field, protowire.VarintType)
	return protowire.AppendVarint(b, n)
}

// Session says how the worker runs what it is fed.
type Session struct {
	Version uint32 // of the protocol
	// Duration bounds the time in which the code of one feed runs, in
	// microseconds, and Memory the heap, in bytes; 0 is no bound.
	Duration, Memory uint64
	// Stubs declare what is not the program's own, to a checker of types that sees
	// each feed before it runs; empty means that none does.
	Stubs string
}

// most is no bound of ours: the host counts the calls.
const most = 1 << 40

// jsonLines is the form in which the checker of types complains.
const jsonLines = 5

// Configure begins a session. The answer is Ok, or Fatal for a version that the
// worker does not speak.
func Configure(s Session) Request {
	var limits []byte
	if s.Memory > 0 {
		limits = appendUint(limits, 2, s.Memory)
	}
	limits = appendUint(limits, 5, most) // suspensions
	if s.Duration > 0 {
		limits = appendUint(limits, 6, s.Duration)
	}
	b := appendMessage(nil, 2, limits)
	if s.Stubs != "" {
		b = appendText(b, 1, "main.py")
		b = appendUint(b, 3, 1)
		b = appendText(b, 4, s.Stubs)
		b = appendUint(b, 7, jsonLines)
	}
	b = appendUint(b, 6, 0) // assert says what its author wrote, and no more
	b = appendUint(b, 9, uint64(s.Version))
	return request(1, b)
}

// Feed runs code with inputs as variables.
func Feed(code string, inputs bridge.Map) Request {
	var values arena
	b := appendText(nil, 1, code)
	for _, m := range inputs {
		named := appendText(nil, 1, m.Key)
		b = appendMessage(b, 2, appendUint(named, 2, uint64(values.add(m.Value))))
	}
	return request(3, appendMessage(b, 3, values.message()))
}

// Answer is the result of a call or a lookup.
type Answer struct {
	Value any
	// Raise is raised in place of a value.
	Raise *Exception
	// Later promises the value as a future.
	Later bool
}

func (a Answer) result(call uint32, values *arena) []byte {
	switch {
	case a.Raise != nil:
		return appendMessage(nil, 2, a.Raise.body())
	case a.Later:
		return appendUint(nil, 3, uint64(call))
	}
	return appendUint(nil, 1, uint64(values.add(a.Value)))
}

// ResumeCall answers a call.
func ResumeCall(call uint32, a Answer) Request {
	var values arena
	b := appendMessage(appendUint(nil, 1, uint64(call)), 2, a.result(call, &values))
	return request(4, appendMessage(b, 3, values.message()))
}

// RefuseSystem answers a call of the system: there is none.
func RefuseSystem(call uint32) Request {
	notHandled := appendMessage(nil, 5, nil)
	return request(4, appendMessage(appendUint(nil, 1, uint64(call)), 2, notHandled))
}

// ResumeLookup sends the value of a name.
func ResumeLookup(a Answer) Request {
	if a.Raise != nil {
		return request(5, appendMessage(nil, 4, a.Raise.body()))
	}
	var values arena
	index := values.add(a.Value)
	return request(5, appendUint(appendMessage(nil, 1, values.message()), 2, uint64(index)))
}

// Undefined says that there is no such name.
func Undefined() Request { return request(5, appendMessage(nil, 3, nil)) }

// ResumeFutures sends the values of futures.
func ResumeFutures(answers map[uint32]Answer) Request {
	var values arena
	var b []byte
	for call, a := range answers {
		one := appendUint(nil, 1, uint64(call))
		b = appendMessage(b, 1, appendMessage(one, 2, a.result(call, &values)))
	}
	return request(6, appendMessage(b, 2, values.message()))
}

// Dump asks for the state of the session.
func Dump() Request { return request(7, nil) }

// Load goes on from a state that Dump gave.
func Load(state []byte) Request {
	return request(8, appendMessage(nil, 1, state))
}

// Reset drops the session with all its state.
func Reset() Request { return request(9, nil) }
