package worker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/lookout"
)

// Place is where a guest runs: a [*Process], or this process.
type Place interface {
	io.ReadWriteCloser
	// Isolation is what it reached, such as wasm+ns+landlock+seccomp.
	Isolation() string
	// End ends what runs there, and returns when that is done. It may be called
	// twice.
	End()
	// LastWords is what it said of its own failure, as the end of a sentence;
	// empty if nothing.
	LastWords() string
}

// Guest is a [Worker] that speaks the bridge, and has said hello.
type Guest struct {
	Place
	conn  *bridge.Conn
	habit lookout.Habit // of the first that it answers to a program
}

// killGrace is how long a guest may take to end a cancelled program by itself,
// before it is killed.
const killGrace = 60 * time.Millisecond

// Accept waits for the hello of what was started at a place, which it ends if
// none comes.
func Accept(ctx context.Context, p Place) (*Guest, error) {
	conn, err := bridge.Accept(ctx, p, bridge.Options{Grace: killGrace, Direct: true})
	if err != nil {
		p.End()
		return nil, fmt.Errorf("%w%s", err, p.LastWords())
	}
	return &Guest{Place: p, conn: conn}, nil
}

// attentive is a place whose bytes can be looked for before this process sleeps.
type attentive interface {
	Expect(*lookout.Habit)
}

// Version is what the guest says that it is.
func (g *Guest) Version() string { return g.conn.Guest() }

// Run runs one program. After an error the guest is of no use.
func (g *Guest) Run(ctx context.Context, p bridge.Program, h bridge.Host) (*bridge.Outcome, error) {
	if s, ok := g.Place.(attentive); ok && p.Awake {
		s.Expect(&g.habit)
	}
	out, err := g.conn.Run(ctx, p, h)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, g.LastWords())
	}
	return out, nil
}

// End ends the guest.
func (g *Guest) End() {
	_ = g.conn.Close() // it is killed next
	g.Place.End()
}
