package mcp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/internal/panics"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/mcp"
	"github.com/toolroom/toolroom/source"
)

// state is the state of a link. Its words are shown to people.
type state string

const (
	idle       state = "idle"
	connecting state = "connecting"
	ready      state = "ready"
	backingOff state = "backing off"
	needsLogin state = "waiting for authorisation"
	broken     state = "broken"
	draining   state = "draining"
	closed     state = "closed"
)

// The first and the longest pause between attempts to connect to a failing server.
// A broken server has the longest pause from the start. Calls during a pause fail
// at once. The pauses are short because a server may recover, or a program be
// repaired, at any moment, and because only a call causes an attempt.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 1500 * time.Millisecond
)

// pingTimeout limits the time for the response to a ping, which is sent after a call has timed
// out.
const pingTimeout = 5 * time.Second

// link is a connection to a server on behalf of one identity. It alone decides when
// to connect and when to give up a connection:
//
//	idle ──use──▶ connecting ──▶ ready ──ended, idle too long, not answering──▶ idle
//	                  │
//	                  ├─fails──▶ backing off ──use after the pause──▶ connecting
//	                  ├─cannot work──▶ broken ──use after the longest pause──▶ connecting
//	                  └─refused──▶ waiting for authorisation ──use after a login──▶ connecting
//	any ──close──▶ draining ──▶ closed
//
// It connects only when it is used, so that servers that are not called are not started.
type link struct {
	s *Source
	linkKey
	auth     *oauth.Client // nil if no tokens are sent
	lastUsed time.Time     // guarded by the source's lock

	mu              sync.Mutex
	state           state
	reason          string
	up              *upstream     // in state ready
	stderr          *proc.Tail    // of the newest program
	earlierStderr   *proc.Tail    // of the last program before it that wrote something, or nil
	attemptDone     chan struct{} // closed when the attempt under way has ended
	pingDone        chan struct{} // closed when the check of up under way has ended, or nil
	failure         error         // of the last attempt
	pause           time.Duration
	retryAt         time.Time // when the pause is over
	legacy          bool      // the server is known to speak no modern revision
	connectedBefore bool      // it has been connected before
	description     source.Description
	work            sync.WaitGroup // the attempt, and the watch of each upstream
	ctx             context.Context
	cancel          context.CancelFunc // ends life
}

func newLink(s *Source, p linkKey) *link {
	l := &link{s: s, linkKey: p, state: idle, legacy: p.capabilities != "", description: source.Description{Kind: toolroom.SourceMCP, Title: s.o.Namespace}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	if s.o.Auth != nil {
		l.auth = s.o.Auth(p.owner)
	}
	return l
}

// use returns the connection, and connects if there is none. Concurrent callers share one attempt
// to connect. They also wait for a check of the connection in progress, because their requests
// would be lost with the connection if the check fails.
func (l *link) use(ctx context.Context) (*upstream, error) {
	for {
		l.mu.Lock()
		switch l.state {
		case ready:
			up, check := l.up, l.pingDone
			l.mu.Unlock()
			if check == nil {
				return up, nil
			}
			select {
			case <-check:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case draining, closed:
			l.mu.Unlock()
			return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", l.s.o.Namespace)
		case backingOff, broken:
			if time.Now().Before(l.retryAt) {
				err := l.failure
				l.mu.Unlock()
				return nil, err
			}
			l.connect()
		case needsLogin, idle:
			l.connect()
		case connecting:
		}
		attempt := l.attemptDone
		l.mu.Unlock()
		select {
		case <-attempt:
			if err := l.lastFailure(); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// lastFailure returns the error of the last attempt to connect, or nil.
func (l *link) lastFailure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// connect begins an attempt to connect. It does not depend on the context of a caller, because
// several may wait for it. If the link needs a login, the attempt dials only if somebody has
// logged in. The caller holds the lock.
func (l *link) connect() {
	stopped, reason, failure := l.state == needsLogin, l.reason, l.failure
	l.state, l.reason, l.failure = connecting, "", nil
	done := make(chan struct{})
	l.attemptDone = done
	older := l.legacy
	l.work.Go(func() {
		if stopped && !l.hasLogin() {
			l.stayStopped(reason, failure)
			close(done)
			return
		}
		ctx, cancel := context.WithTimeout(l.ctx, l.s.o.StartTimeout)
		defer cancel()
		var up *upstream
		var err error
		if panicked := panics.Catch(func() { up, err = l.dial(ctx, older) }); panicked != nil {
			up, err = nil, toolroom.Errorf(toolroom.CodeInternal, "connecting to the source %s failed: %w", l.s.o.Namespace, panicked)
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && l.ctx.Err() == nil {
			err = &startTimeoutError{limit: l.s.o.StartTimeout, err: err}
		}
		anew := false
		if err != nil {
			l.connectFailed(err)
		} else {
			if l.isMain() {
				l.s.resubscribe(ctx, up)
			}
			anew = l.connected(up)
		}
		close(done)
		if anew && l.isMain() {
			l.s.toolsChanged() // the restarted server may have other tools
		}
	})
}

// startTimeoutError is the error of a server that did not answer within start_timeout.
type startTimeoutError struct {
	limit time.Duration
	err   error
}

func (e *startTimeoutError) Error() string {
	return fmt.Sprintf("it did not answer within %s (start_timeout)", e.limit)
}

func (e *startTimeoutError) Unwrap() error { return e.err }

// isMain reports whether this is the operator's connection, on which the source reads its lists.
func (l *link) isMain() bool { return l.linkKey == linkKey{owner: l.s.ownerOf(toolroom.Identity{})} }

// connected stores a new connection, and reports whether the link has been connected before.
func (l *link) connected(up *upstream) (anew bool) {
	l.mu.Lock()
	if l.state != connecting { // closed in the meantime
		l.failure = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", l.s.o.Namespace)
		l.mu.Unlock()
		up.close() // without the lock, because it waits for the server
		return false
	}
	defer l.mu.Unlock()
	up.lastUse.Store(time.Now().UnixNano()) // its start, which may take longer than Config.Idle, does not count
	server := up.session.Server()
	l.state, l.reason, l.failure, l.up = ready, "protocol "+server.Version, nil, up
	anew = l.connectedBefore
	l.pause, l.legacy, l.connectedBefore = 0, !server.Modern(), true
	l.description.Title, l.description.Text = up.title(l.s.o.Namespace), server.Instructions
	l.work.Go(func() { panics.Log(l.s.o.Log, "watching a source", func() { l.watch(up) }) })
	return anew
}

// connectFailed handles a failed attempt.
func (l *link) connectFailed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = l.unreachableError(err)
	if l.state != connecting {
		return
	}
	l.legacy = false // the server may have been updated
	l.reason = err.Error()
	if l.stopForLogin(err) != nil {
		return
	}
	l.state, l.pause = backingOff, min(max(2*l.pause, firstPause), lastPause)
	if advice := remedy(err); advice != "" {
		l.state, l.pause = broken, lastPause
		l.reason += "; " + advice
		l.failure = l.unreachableError(err).WithHint("%s", advice).WithCLIHint("")
	}
	// Add jitter, so that many sources behind one dead host do not all reconnect at
	// once.
	l.retryAt = time.Now().Add(l.pause/2 + rand.N(l.pause/2+1))
}

func (l *link) unreachableError(err error) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s cannot be reached: %w", l.s.o.Namespace, err)
	e.Effects = toolroom.EffectsNone
	if refused := toolroom.AsError(err); refused.Code == toolroom.CodeDenied { // by the egress guard
		e.Code, e.Hint, e.CLIHint, e.Retryable = refused.Code, refused.Hint, refused.CLIHint, false
		return e
	}
	if slow := (*startTimeoutError)(nil); errors.As(err, &slow) {
		return l.withTimeoutHint(e)
	}
	return e.WithCLIHint("toolroom sources test %s", l.s.o.Namespace)
}

// withTimeoutHint adds hints to the error of a server that took longer than start_timeout.
func (l *link) withTimeoutHint(e *toolroom.Error) *toolroom.Error {
	e = e.WithHint("raise start_timeout of the source")
	if l.s.o.Command == "" {
		return e.WithCLIHint("check its URL, and that it runs: toolroom sources test %s", l.s.o.Namespace)
	}
	return e.WithCLIHint("look at its output: toolroom sources test %s --log-level debug", l.s.o.Namespace)
}

// watch drops a connection when it has ended, or has been idle for longer than Config.Idle.
func (l *link) watch(up *upstream) {
	var unused <-chan time.Time
	if l.s.o.Idle > 0 && l.s.o.Command != "" {
		ticker := time.NewTicker(max(l.s.o.Idle/4, time.Millisecond))
		defer ticker.Stop()
		unused = ticker.C
	}
	for {
		select {
		case <-up.session.Done():
			l.drop(up, "it ended; the next call starts it again")
			up.close()
			return
		case <-unused:
			if up.retireIfIdle(l.s.o.Idle) {
				l.drop(up, "it was not used; the next call starts it again")
			}
		}
	}
}

// drop ends a connection, so that the next use makes a new one.
func (l *link) drop(up *upstream, reason string) {
	l.mu.Lock()
	if l.up == up {
		l.up = nil
		if l.state == ready {
			l.state, l.reason = idle, reason
		}
	}
	l.mu.Unlock()
	up.session.End()
}

// checkAlive pings the server in the background, and drops the connection if it does not answer.
// because is the reason for the check, for error messages.
func (l *link) checkAlive(up *upstream, because string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != up || l.pingDone != nil {
		return
	}
	check := make(chan struct{})
	l.pingDone = check
	l.work.Go(func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.pingDone = nil
			close(check)
		}()
		ctx, cancel := context.WithTimeout(l.ctx, pingTimeout)
		defer cancel()
		err := up.session.Ping(ctx)
		rpc := (*mcp.Error)(nil)
		switch {
		case err == nil || errors.As(err, &rpc) || l.ctx.Err() != nil:
		case errors.Is(err, context.DeadlineExceeded):
			given := fmt.Errorf("the connection was ended, because %s and then the server did not answer a ping within %s", because, pingTimeout)
			up.givenUp.Store(&given)
			l.drop(up, "it stopped answering; the next call starts it again")
		default:
			l.drop(up, err.Error())
		}
	})
}

// isUnused reports whether the last request ended longer ago than since. Polling a task counts as
// a request each time.
func (l *link) isUnused(since time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up == nil || l.up.busy.Load() == 0 && l.up.idleTime() >= since
}

// close ends the connection and returns when all its work has ended.
func (l *link) close() {
	l.mu.Lock()
	up := l.up
	if l.state != closed {
		l.state, l.reason = draining, ""
	}
	l.up = nil
	l.mu.Unlock()
	l.cancel()
	if up != nil {
		up.session.End()
	}
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = closed
}

// endOfEarlier separates the output of an earlier process from that of the current one.
const endOfEarlier = "\n[the output above is that of the process before]\n"

func (l *link) describe() source.Description {
	l.mu.Lock()
	d, up := l.description, l.up
	d.State, d.Reason = string(l.state), l.reason
	stderr, earlier := l.stderr, l.earlierStderr
	l.mu.Unlock()
	if earlier != nil {
		d.Output = strings.TrimSuffix(strings.ToValidUTF8(earlier.String(), ""), "\n") + endOfEarlier
	}
	if stderr != nil {
		d.Output += strings.ToValidUTF8(stderr.String(), "")
	}
	if up != nil && up.process != nil && up.process.PID() != 0 {
		d.Process = &source.Process{PID: up.process.PID(), Memory: up.process.Memory(), Stderr: lastLines(up.stderr)}
	}
	return d
}
