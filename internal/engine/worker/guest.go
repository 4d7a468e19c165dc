package worker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// GuestProcess is the process of a guest, with its stream: a [*Process], or a fake in tests.
type GuestProcess interface {
	io.ReadWriteCloser
	// Isolation returns the isolation in effect, such as wasm+ns+landlock+seccomp.
	Isolation() string
	// End ends the guest, and returns when that is done. It may be called twice.
	End()
	// StderrSuffix returns what the guest wrote on stderr, as the end of a
	// sentence, or "" if it wrote nothing.
	StderrSuffix() string
}

// Guest is a [Worker] that speaks the bridge and has sent hello.
type Guest struct {
	GuestProcess
	conn *bridge.Conn
	// compiled is the module that the guest compiled last and runs next, nil if there is none.
	compiled []byte
}

// killGrace is how long a guest may take to end a cancelled program by itself,
// before it is killed.
const killGrace = 60 * time.Millisecond

// Accept waits for the hello of the guest at p. If none comes, it ends p.
func Accept(ctx context.Context, p GuestProcess) (*Guest, error) {
	conn, err := bridge.Accept(ctx, p, bridge.Options{Grace: killGrace, Direct: true})
	if err != nil {
		p.End()
		return nil, fmt.Errorf("%w%s", err, p.StderrSuffix())
	}
	return &Guest{GuestProcess: p, conn: conn}, nil
}

// Version returns the name and version that the guest reports.
func (g *Guest) Version() string { return g.conn.Guest() }

// Run runs one program. After an error the guest cannot be used again.
func (g *Guest) Run(ctx context.Context, p bridge.Program, h bridge.Handler) (*bridge.Outcome, error) {
	out, err := g.conn.Run(ctx, p, h)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, g.StderrSuffix())
	}
	return out, nil
}

// End ends the guest.
func (g *Guest) End() {
	_ = g.conn.Close() // the guest is killed next
	g.GuestProcess.End()
}
