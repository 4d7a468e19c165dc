package monty

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// worker is a process that runs programs of one owner, one after the other.
type worker struct {
	conn      *protocol.Conn
	version   uint32 // of the protocol
	owner     string // empty until its first run
	isolation string
	kill      func()     // ends it; returns when it has ended; may be called twice
	exit      func() int // its exit code, once it has ended
	// owes is how many answers are still to come, to what ended the last run.
	owes int
}

// starter starts a worker.
type starter func(ctx context.Context) (*worker, error)

// versions of the protocol that package protocol speaks, the newest first. Older
// ones, of releases before 1.3, have values in another form.
var versions = []uint32{6, 5}

const startTimeout = 10 * time.Second

// launched is a process that has been started.
type launched struct {
	kill      func()
	exit      func() int
	isolation string
}

// newStarter makes workers that are processes of their own, as far from
// everything as the machine allows.
func newStarter(o Options) starter {
	l := newLauncher(o.Init)
	return func(ctx context.Context) (*worker, error) {
		path, err := o.Find()
		if err != nil {
			return nil, unavailable(err)
		}
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		var why string // the oldest version is refused
		for _, version := range versions {
			w, refused, err := begin(ctx, l, path, version)
			switch {
			case err != nil:
				return nil, unavailable(err)
			case w != nil:
				return w, nil
			}
			why = refused
		}
		return nil, unavailable(fmt.Errorf("%s: %s", path, why))
	}
}

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no Monty worker could be started: %w", err).
		WithHint("toolroom setup engines installs one that works")
}

// begin starts a worker and tries a version of the protocol. A worker that does
// not speak it says so and ends.
func begin(ctx context.Context, l launcher, path string, version uint32) (w *worker, refused string, err error) {
	in, ourIn, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	ourOut, out, err := os.Pipe()
	if err != nil {
		_, _ = in.Close(), ourIn.Close()
		return nil, "", err
	}
	process, err := l.launch(path, in, out)
	// With these open here as well, the worker's end would not be seen.
	_, _ = in.Close(), out.Close()
	if err != nil {
		_, _ = ourIn.Close(), ourOut.Close()
		return nil, "", err
	}
	w = &worker{conn: protocol.NewConn(ourIn, ourOut), version: version, isolation: process.isolation, exit: process.exit}
	w.kill = func() {
		process.kill()
		_, _ = ourIn.Close(), ourOut.Close()
	}
	stop := context.AfterFunc(ctx, w.kill)
	defer stop()
	if err := w.conn.Send(protocol.Configure(protocol.Session{Version: version}), protocol.Reset()); err != nil {
		w.kill()
		return nil, "", err
	}
	for range 2 {
		e, err := w.conn.Receive()
		if err == nil && e.Kind == protocol.Ok {
			continue
		}
		w.kill()
		if err == nil && e.Kind == protocol.Fatal {
			return nil, e.Message, nil
		}
		if err == nil {
			err = fmt.Errorf("it answered with an event of kind %d", e.Kind)
		}
		return nil, "", err
	}
	return w, "", nil
}
