package protocol_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

func receive(frames ...[]byte) (protocol.Event, error) {
	var b []byte
	for _, f := range frames {
		b = append(binary.LittleEndian.AppendUint32(b, uint32(len(f))), f...)
	}
	return protocol.NewConn(io.Discard, bytes.NewReader(b)).Receive()
}

func message(field protowire.Number, body ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), body)
}

// Inputs of a feed and the value of a complete event have their arenas in the
// same form: what is written in one is read in the other.
func TestValuesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 3600)
	sent := bridge.Map{
		{Key: "z", Value: []any{nil, true, int64(-1), int64(1) << 62, 1.5, "ü", []byte{0, 255}, []any{}, bridge.Map{}}},
		{Key: "a", Value: time.Date(2026, 11, 21, 7, 30, 0, 123000, zone)},
	}
	feed := protocol.Feed("x", bridge.Map{{Key: "x", Value: sent}})
	var arena []byte
	for rest := []byte(feed)[headOf(feed):]; len(rest) > 0; {
		number, _, n := protowire.ConsumeTag(rest)
		body, m := protowire.ConsumeBytes(rest[n:])
		if number == 3 {
			arena = body
		}
		rest = rest[n+m:]
	}
	last := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), nodes(arena)-1)
	e, err := receive(message(6, append(last, message(2, arena...)...)...))
	if err != nil {
		t.Fatal(err)
	}
	want := protocol.Dict{
		{Key: "z", Value: []any{nil, true, int64(-1), int64(1) << 62, 1.5, "ü", []byte{0, 255}, []any{}, protocol.Dict{}}},
		{Key: "a", Value: time.Date(2026, 11, 21, 7, 30, 0, 123000, zone)},
	}
	times := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	if diff := cmp.Diff(any(want), e.Value, times); diff != "" {
		t.Error(diff)
	}
}

// headOf is the length of a request's tag and length.
func headOf(request []byte) int {
	_, _, n := protowire.ConsumeTag(request)
	_, m := protowire.ConsumeVarint(request[n:])
	return n + m
}

// nodes reads the count of an arena.
func nodes(arena []byte) uint64 {
	_, _, n := protowire.ConsumeTag(arena)
	count, _ := protowire.ConsumeVarint(arena[n:])
	return count
}

func TestAWorkerThatBreaksTheProtocolIsAnErrorAndNoMore(t *testing.T) {
	t.Parallel()
	huge := protocol.NewConn(io.Discard, strings.NewReader("\xff\xff\xff\xff"))
	if _, err := huge.Receive(); err == nil || errors.Is(err, protocol.ErrGone) {
		t.Errorf("a huge frame ended with %v", err)
	}
	short := protocol.NewConn(io.Discard, strings.NewReader("\xff\xff\xff\x03abc"))
	if _, err := short.Receive(); !errors.Is(err, protocol.ErrGone) {
		t.Errorf("a frame cut short ended with %v", err)
	}
	for name, frame := range map[string][]byte{
		"nothing":                    {},
		"no message":                 {0xff, 0xff, 0xff},
		"a value that is not there":  message(6, 0x08, 0x05, 0x12, 0x00),
		"a list of what comes later": message(6, append([]byte{}, message(2, message(2, message(11, 0x0a, 0x01, 0x07)...)...)...)...),
		"an id that is too short":    message(4, message(2, message(1, 1, 2, 3)...)...),
	} {
		if e, err := receive(frame); err == nil {
			t.Errorf("%s was read as %+v", name, e)
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(message(6, append([]byte{0x08, 0x00}, message(2, message(2, message(11, 0x0a, 0x01, 0x00)...)...)...)...))
	f.Add(message(2, 0x0a, 0x01, 'f'))
	f.Add(message(7, message(1, message(3, message(2, 0x08, 0x01)...)...)...))
	f.Fuzz(func(_ *testing.T, frame []byte) { _, _ = receive(frame) })
}

func TestAnEventOfTooManyValuesIsNotRead(t *testing.T) {
	t.Parallel()
	for count, want := range map[int]bool{protocol.MaxNodes: false, protocol.MaxNodes + 1: true} {
		arena := bytes.Repeat(message(2, 5<<3, 2), count) // the number 1
		call := append(append(message(1, []byte("call_tool")...), 4<<3, 7), message(7, arena...)...)
		e, err := receive(message(2, call...))
		if err != nil || e.TooManyValues != want || e.Call != 7 || e.Name != "call_tool" {
			t.Errorf("with %d values: %v, excess %v, call %d of %q", count, err, e.TooManyValues, e.Call, e.Name)
		}
	}
}
