// Package program provides the sandbox drivers of programs: a program that speaks the
// protocol of docs/runner.md over a private Unix socket is started when it is first needed,
// ends with this process, and is started again after a crash. The drivers of foreign engines
// are in such a program, toolroom-runner.
//
// [Serve] is the side of the program that has the drivers. docs/runner.md describes the
// protocol.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
)

// Options configures a program.
type Options struct {
	// Name is the program's name in messages.
	Name string
	// Find returns the program's path. Its error says where the program was searched, and
	// its hint where to get it.
	Find func() (string, error)
	Args []string
	// Environ is the program's environment, KEY=VALUE; nil means that of this process.
	Environ []string
	// Folder is the folder of the sockets; it is created, and only this user may use it.
	Folder string
	// Build is the build that the program must be of; empty allows any.
	Build string
	// Log receives the program's stderr, a line each; nil discards it.
	Log *slog.Logger
	// Hello bounds the wait for the program's first line (20 s).
	Hello time.Duration
}

// Program is a program with drivers. Make one with [New], and close it. Its methods are safe
// for concurrent use.
type Program struct {
	o Options

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu       sync.Mutex
	starting *start   // nil if no process is being started
	current  *process // the last one that was started; it may have ended
	drivers  []*Driver
	tidying  sync.WaitGroup
}

// start is the start of a process, for which requests wait.
type start struct {
	done    chan struct{} // closed when the process runs or has failed
	process *process
	err     error
}

// New returns a program. It starts nothing yet.
func New(o Options) *Program {
	o.Hello = cmp.Or(o.Hello, 20*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	p := &Program{o: o}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Status returns the path and the build of the program, which it starts. The error says why
// its drivers cannot be used.
func (p *Program) Status(ctx context.Context) (path, build string, err error) {
	r, err := p.ensureRunning(ctx)
	if err != nil {
		return "", "", err
	}
	return r.cmd.Path, r.hello.Build, nil
}

// ensureRunning returns the process of the program, and starts one if there is none.
func (p *Program) ensureRunning(ctx context.Context) (*process, error) {
	if err := ctx.Err(); err != nil {
		return nil, unavailable("%s was not started: %w", p.o.Name, err)
	}
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		return nil, unavailable("%s has been stopped", p.o.Name)
	}
	if p.current != nil && !p.current.ended() {
		defer p.mu.Unlock()
		return p.current, nil
	}
	if p.starting == nil {
		p.starting = &start{done: make(chan struct{})}
		go p.finish(p.starting)
	}
	s := p.starting
	p.mu.Unlock()
	select {
	case <-s.done:
		return s.process, s.err
	case <-ctx.Done():
		return nil, unavailable("%s is being started, and the request ended: %w", p.o.Name, context.Cause(ctx))
	}
}

// finish starts the process. It goes on if the request that needed it first has ended, because
// others may wait for it.
func (p *Program) finish(s *start) {
	s.process, s.err = p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	crashed := p.current != nil
	p.starting = nil
	if s.err == nil {
		p.current = s.process
		if crashed {
			p.cleanAfterCrash()
		}
	}
	close(s.done)
}

// cleanTimeout bounds the search for what a crashed process has left behind.
const cleanTimeout = time.Minute

// cleanAfterCrash removes what the sandboxes of a process that has crashed have left behind.
func (p *Program) cleanAfterCrash() {
	for _, d := range p.drivers {
		if !d.used() {
			continue
		}
		p.tidying.Go(func() {
			ctx, done := context.WithTimeout(context.Background(), cleanTimeout)
			defer done()
			if left, err := d.Clean(ctx, false); err != nil || len(left) > 0 {
				p.o.Log.Warn("cleaned up after a crash", "program", p.o.Name, "driver", d.name, "removed", len(left), "error", err)
			}
		})
	}
}

// stopTimeout bounds the wait for the end of a program, which removes its sandboxes before.
const stopTimeout = 30 * time.Second

// Close stops the program, which removes its sandboxes.
func (p *Program) Close() error {
	p.mu.Lock()
	p.stop()
	s := p.starting
	p.mu.Unlock()
	if s != nil {
		<-s.done
	}
	p.mu.Lock()
	current := p.current
	p.mu.Unlock()
	if current == nil {
		return nil
	}
	current.lifeline.Close()
	var err error
	select {
	case <-current.done:
	case <-time.After(stopTimeout):
		_ = current.cmd.Process.Kill()
		<-current.done
		err = fmt.Errorf("%s did not end within %s and was killed; its sandboxes may be left", p.o.Name, stopTimeout)
	}
	p.tidying.Wait()
	return err
}

func unavailable(format string, args ...any) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, format, args...)
}

// isContext reports whether a request has ended because of its context.
func isContext(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
