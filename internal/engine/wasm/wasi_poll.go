package wasm

import (
	"encoding/binary"
	"time"
)

// The layout of poll_oneoff (types subscription and event).
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024

	typeClock = 0
	typeRead  = 1
)

// poll waits for the first of its subscriptions: a time, or bytes of a live stream.
// All others are ready at once.
func (g *guest) poll() errno {
	count := g.word(2)
	if count == 0 || count > maxSubscriptions {
		return invalid
	}
	in, ok := g.memory.Read(g.word(0), count*subscriptionSize)
	out, there := g.memory.Read(g.word(1), count*eventSize)
	if !ok || !there {
		return invalid
	}
	// Read all subscriptions before writing, because input and output may overlap.
	subscriptions := append([]byte{}, in...)
	due := make([]time.Duration, count)
	wait, reads := MaxWait, false
	for n := range due {
		s := subscriptions[n*subscriptionSize:]
		switch {
		case s[8] == typeClock:
			due[n] = g.due(s)
			wait = min(wait, due[n])
		case g.waitsFor(s):
			reads = true
		default:
			wait = 0
		}
	}
	ready := false
	if reads {
		ready = g.Await(wait)
	} else {
		g.Sleep(wait)
	}
	events := uint32(0)
	for n := range due {
		s := subscriptions[n*subscriptionSize:]
		happened := true
		switch {
		case s[8] == typeClock:
			happened = !ready && due[n] == wait
		case g.waitsFor(s):
			happened = ready
		}
		if !happened {
			continue
		}
		e := out[events*eventSize:][:eventSize]
		clear(e)
		copy(e, s[:8]) // the guest's own value
		e[10] = s[8]
		e[16] = 1 // at least one byte
		events++
	}
	return g.writeWord(g.word(3), events)
}

// waitsFor reports whether a subscription is for bytes of a live stream.
func (g *guest) waitsFor(s []byte) bool {
	return s[8] == typeRead && g.Stream(binary.LittleEndian.Uint32(s[16:]))&Live != 0
}

// due returns the time until a clock subscription is ready.
func (g *guest) due(s []byte) time.Duration {
	const absolute = 1
	clock, at := binary.LittleEndian.Uint32(s[16:]), binary.LittleEndian.Uint64(s[24:])
	if s[40]&absolute != 0 {
		now := g.Now(clock)
		at = max(at, now) - now
	}
	return time.Duration(min(at, uint64(MaxWait)))
}
