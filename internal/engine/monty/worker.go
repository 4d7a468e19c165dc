package monty

import (
	"context"
	"fmt"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
	"github.com/toolroom/toolroom/internal/engine/worker"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// montyWorker is a worker process of Monty with which a version of the protocol is agreed.
type montyWorker struct {
	*worker.Process
	conn    *protocol.Conn
	version uint32
	// pendingAnswers is the number of answers to requests of the last run that have not been
	// received yet.
	pendingAnswers int
}

// versions are the versions of the protocol that package protocol speaks, the newest first.
// Older ones, of releases before 1.3, encode values differently.
var versions = []uint32{6, 5}

const startTimeout = 10 * time.Second

// newStarter returns a function that starts workers. It tries the versions of the protocol in
// order.
func newStarter(o Options) func(context.Context) (*montyWorker, error) {
	launcher := worker.NewLauncher("monty", o.Init)
	return func(ctx context.Context) (*montyWorker, error) {
		path, err := o.Find()
		if err != nil {
			return nil, unavailable(err)
		}
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		defer cancel()
		var why string // the oldest version is refused
		for _, version := range versions {
			w, refused, err := startWorker(ctx, launcher, path, version)
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
		WithCLIHint("install one with toolroom setup engines")
}

// startWorker starts a worker with a version of the protocol. If the worker does not speak it,
// startWorker returns a nil worker and the worker's reason.
func startWorker(ctx context.Context, l *worker.Launcher, path string, version uint32) (s *montyWorker, refused string, err error) {
	process, err := l.Start(worker.Spec{Path: path, Args: []string{"monty", "subprocess"}, Seccomp: lockdown.Hardened})
	if err != nil {
		return nil, "", err
	}
	s = &montyWorker{Process: process, conn: protocol.NewConn(process, process), version: version}
	stop := context.AfterFunc(ctx, s.End)
	defer stop()
	if err := s.conn.Send(protocol.Configure(protocol.Session{Version: version}), protocol.Reset()); err != nil {
		s.End()
		return nil, "", err
	}
	for range 2 {
		e, err := s.conn.Receive()
		if err == nil && e.Kind == protocol.Ok {
			continue
		}
		s.End()
		if err == nil && e.Kind == protocol.Fatal {
			return nil, e.Message, nil
		}
		if err == nil {
			err = fmt.Errorf("it answered with an event of kind %d", e.Kind)
		}
		return nil, "", fmt.Errorf("%w%s", err, s.StderrSuffix())
	}
	if !stop() {
		return nil, "", context.Cause(ctx) // it is ended
	}
	return s, "", nil
}
