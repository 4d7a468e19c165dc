package cpython

import (
	"encoding/binary"
	"time"
)

// The layout of poll_oneoff (wasi_snapshot_preview1, types subscription and
// event).
const (
	subscriptionSize = 48
	eventSize        = 32
	maxSubscriptions = 1024

	typeClock = 0
	typeRead  = 1
)

// poll waits for the first of its subscriptions: a time, or bytes from the
// host on descriptor 0. All else is ready at once.
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
	// What is waited for, read before anything is written: they may overlap.
	subscriptions := append([]byte{}, in...)
	wait, reads := ever, false
	for at := 0; at < len(subscriptions); at += subscriptionSize {
		s := subscriptions[at:]
		switch {
		case s[8] == typeClock:
			wait = min(wait, due(s))
		case s[8] == typeRead && binary.LittleEndian.Uint32(s[16:]) == 0:
			reads = true
		default:
			wait = 0
		}
	}
	began, ready := time.Now(), false
	if g.run != nil {
		if reads {
			ready = g.await(wait)
		} else {
			g.sleep(wait)
		}
	}
	waited := time.Since(began)
	events := uint32(0)
	for at := 0; at < len(subscriptions); at += subscriptionSize {
		s := subscriptions[at:]
		happened := true
		switch s[8] {
		case typeClock:
			happened = !ready && (due(s) <= waited || due(s) == wait)
		case typeRead:
			happened = ready || binary.LittleEndian.Uint32(s[16:]) != 0
		}
		if !happened {
			continue
		}
		e := out[events*eventSize:][:eventSize]
		clear(e)
		copy(e, s[:8]) // what the guest knows it by
		e[10] = s[8]
		e[16] = 1 // bytes, at least
		events++
	}
	return g.give(g.word(3), events)
}

// due is the time until a subscription to a clock.
func due(s []byte) time.Duration {
	const absolute = 1
	at := binary.LittleEndian.Uint64(s[24:])
	if s[40]&absolute != 0 {
		return max(time.Until(time.Unix(0, int64(min(at, 1<<62)))), 0)
	}
	return time.Duration(min(at, 1<<62))
}

// sleep waits for a time only; what comes meanwhile stays for later.
func (g *guest) sleep(wait time.Duration) {
	r := g.run
	r.port.Inbox.Sleep(r.ctx, wait)
	if r.stopped() {
		panic(stopError{})
	}
}
