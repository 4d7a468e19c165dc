package protocol

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolroom/toolroom/bridge"
)

// Request is an encoded ParentRequest.
type Request []byte

// request returns the request of a kind with this body.
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

// Session configures how the worker runs code.
type Session struct {
	Version uint32 // of the protocol
	// Duration limits the time that the code of one feed runs, in microseconds. Memory
	// limits the heap, in bytes. 0 means no limit.
	Duration, Memory uint64
	// Stubs declare the names that the code uses and does not define. If they are set, each
	// feed is type-checked before it runs.
	Stubs string
}

// unlimited is the worker's limit of calls. Toolroom counts them itself.
const unlimited = 1 << 40

// jsonLines is the format of the type checker's output.
const jsonLines = 5

// Configure begins a session. The answer is Ok, or Fatal for a version that the
// worker does not speak.
func Configure(s Session) Request {
	var limits []byte
	if s.Memory > 0 {
		limits = appendUint(limits, 2, s.Memory)
	}
	limits = appendUint(limits, 5, unlimited) // suspensions
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
	b = appendUint(b, 6, 0) // a failed assert reports only the author's message
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
	return request(3, appendMessage(b, 3, values.encode()))
}

// Answer is the result of a call or a lookup.
type Answer struct {
	Value any
	// Raise, if set, is raised, and there is no value.
	Raise *Exception
	// Later means that the program gets a future, and the value later.
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
	return request(4, appendMessage(b, 3, values.encode()))
}

// RefuseSystem answers that a system call does not exist.
func RefuseSystem(call uint32) Request {
	notHandled := appendMessage(nil, 5, nil)
	return request(4, appendMessage(appendUint(nil, 1, uint64(call)), 2, notHandled))
}

// ResumeLookup answers a lookup with the value of the name.
func ResumeLookup(a Answer) Request {
	if a.Raise != nil {
		return request(5, appendMessage(nil, 4, a.Raise.body()))
	}
	var values arena
	index := values.add(a.Value)
	return request(5, appendUint(appendMessage(nil, 1, values.encode()), 2, uint64(index)))
}

// Undefined answers a lookup: there is no such name.
func Undefined() Request { return request(5, appendMessage(nil, 3, nil)) }

// ResumeFutures resolves futures, by the ids of their calls.
func ResumeFutures(answers map[uint32]Answer) Request {
	var values arena
	var b []byte
	for call, a := range answers {
		one := appendUint(nil, 1, uint64(call))
		b = appendMessage(b, 1, appendMessage(one, 2, a.result(call, &values)))
	}
	return request(6, appendMessage(b, 2, values.encode()))
}

// Dump asks for the state of the session.
func Dump() Request { return request(7, nil) }

// Load restores a state that Dump has returned.
func Load(state []byte) Request {
	return request(8, appendMessage(nil, 1, state))
}

// Reset drops the session with all its state.
func Reset() Request { return request(9, nil) }
