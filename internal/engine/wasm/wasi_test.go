package wasm

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// system has nothing to read until its live stream has waited for a set time.
type system struct {
	arrives  time.Duration
	waited   time.Duration
	nonblock bool
}

func (*system) Environment() []string { return nil }

func (*system) Arguments() []string { return []string{"main", "x"} }

func (*system) Stream(fd uint32) Stream {
	return []Stream{Readable, Writable, Writable, Readable | Writable | Live, 0}[min(fd, 4)]
}
func (s *system) Blocks() bool     { return !s.nonblock }
func (s *system) SetBlocks(b bool) { s.nonblock = !b }
func (s *system) Await(atMost time.Duration) bool {
	s.waited += min(atMost, s.arrives)
	return s.arrives <= atMost
}
func (s *system) Read(_ uint32, to []byte) int    { return copy(to, "abc") }
func (s *system) Write(_ uint32, data []byte) int { return len(data) }
func (s *system) Sleep(d time.Duration)           { s.waited += d }
func (s *system) Now(uint32) uint64               { return uint64(s.waited) + 1000 }
func (s *system) Random(to []byte)                { clear(to) }

// wasiMemory returns one page, of a module that has nothing else.
func wasiMemory(t *testing.T) api.Memory {
	t.Helper()
	r := wazero.NewRuntime(t.Context())
	t.Cleanup(func() { _ = r.Close(t.Context()) })
	m, err := r.Instantiate(t.Context(), []byte("\x00asm\x01\x00\x00\x00\x05\x03\x01\x00\x01\x07\x05\x01\x01m\x02\x00"))
	if err != nil {
		t.Fatal(err)
	}
	return m.ExportedMemory("m")
}

func TestNoPointerOfAGuestCausesAPanic(t *testing.T) {
	t.Parallel()
	m := wasiMemory(t)
	wild := []uint64{0, 1, 3, 65_535, 65_536, 1 << 31, 1<<32 - 1, 1<<32 - 8}
	for _, c := range wasiFunctions() {
		t.Run(c.name, func(t *testing.T) {
			for _, a := range wild {
				for _, b := range wild {
					args := make([]uint64, max(len(c.params), 1))
					for i := range args {
						args[i] = []uint64{a, b}[i%2]
					}
					// Only how it ends counts: without a panic, in time.
					c.do(&guest{&system{}, m, args})
				}
			}
		})
	}
}

const (
	in, out, count = 0, 1024, 2048 // addresses of subscriptions, events and their number
)

// subscriptions writes subscriptions to times and to reads of descriptors.
func subscriptions(t *testing.T, m api.Memory, list ...func([]byte)) uint64 {
	t.Helper()
	for n, fill := range list {
		s := make([]byte, subscriptionSize)
		s[0] = byte(n + 1) // the guest's own value
		fill(s)
		if !m.Write(in+uint32(n)*subscriptionSize, s) {
			t.Fatal("there is no room")
		}
	}
	return uint64(len(list))
}

func after(d time.Duration, flags byte) func([]byte) {
	return func(s []byte) {
		s[8], s[40] = typeClock, flags
		binary.LittleEndian.PutUint64(s[24:], uint64(d))
	}
}

func read(fd uint32) func([]byte) {
	return func(s []byte) {
		s[8] = typeRead
		binary.LittleEndian.PutUint32(s[16:], fd)
	}
}

func TestPollWaitsForTheFirstOfItsSubscriptions(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		arrives time.Duration
		list    []func([]byte)
		waited  time.Duration
		events  []byte
	}{
		"a time":                            {time.Hour, []func([]byte){after(5*ms, 0)}, 5 * ms, []byte{1}},
		"the earlier of two times":          {time.Hour, []func([]byte){after(9*ms, 0), after(5*ms, 0)}, 5 * ms, []byte{2}},
		"a time of the clock":               {time.Hour, []func([]byte){after(5*ms+1000, 1)}, 5 * ms, []byte{1}},
		"a time that is over":               {time.Hour, []func([]byte){after(1, 1)}, 0, []byte{1}},
		"bytes before a time":               {3 * ms, []func([]byte){after(5*ms, 0), read(3)}, 3 * ms, []byte{2}},
		"a time before bytes":               {7 * ms, []func([]byte){after(5*ms, 0), read(3)}, 5 * ms, []byte{1}},
		"what is ready at once":             {time.Hour, []func([]byte){after(5*ms, 0), read(0), read(3)}, 0, []byte{2}},
		"what is no descriptor, is at once": {time.Hour, []func([]byte){after(5*ms, 0), read(77)}, 0, []byte{2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, s := wasiMemory(t), &system{arrives: c.arrives}
			n := subscriptions(t, m, c.list...)
			if e := (&guest{s, m, []uint64{in, out, n, count}}).poll(); e != success {
				t.Fatalf("errno %d", e)
			}
			var events []byte
			got, _ := m.ReadUint32Le(count)
			for i := range got {
				b, _ := m.ReadByte(out + i*eventSize)
				events = append(events, b)
			}
			if diff := cmp.Diff(c.events, events); diff != "" || s.waited != c.waited {
				t.Errorf("it waited %s, want %s; events (-want +got):\n%s", s.waited, c.waited, diff)
			}
		})
	}
}

func TestAReadBlocksUnlessNonblockIsSet(t *testing.T) {
	t.Parallel()
	m, s := wasiMemory(t), &system{arrives: time.Second}
	if !m.WriteUint32Le(0, 100) || !m.WriteUint32Le(4, 2) { // one piece, of two bytes at 100
		t.Fatal("there is no room")
	}
	do := func(f func(*guest) errno, args ...uint64) errno { return f(&guest{s, m, args}) }
	if e := do((*guest).read, 3, 0, 1, 8); e != success || s.waited != time.Second {
		t.Errorf("errno %d after %s", e, s.waited)
	}
	if e := do((*guest).setFlags, 3, nonblock); e != success {
		t.Errorf("errno %d", e)
	}
	if e := do((*guest).read, 3, 0, 1, 8); e != again || s.waited != time.Second {
		t.Errorf("errno %d after %s", e, s.waited)
	}
	for fd, want := range map[uint64]errno{0: success, 1: badFile, 4: badFile, 1<<32 - 1: badFile} {
		if e := do((*guest).read, fd, 0, 1, 8); e != want {
			t.Errorf("descriptor %d: errno %d, want %d", fd, e, want)
		}
	}
	if n, _ := m.ReadUint32Le(8); n != 2 {
		t.Errorf("%d bytes were read", n)
	}
}
