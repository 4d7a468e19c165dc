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
	waiting    state = "waiting for authorisation"
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

// checkTime is the time in which a server must answer a ping after a call has
// timed out.
const checkTime = 5 * time.Second

// link is a connection to a server on behalf of one identity. It alone decides when
// to connect and when to give up a connection:
//
//	idle ──use──▶ connecting ──▶ ready ──ended, not used, not answering──▶ idle
//	                  │
//	                  ├─fails──▶ backing off ──use after the pause──▶ connecting
//	                  ├─cannot work──▶ broken ──use after the longest pause──▶ connecting
//	                  └─refused──▶ waiting for authorisation ──use after a login──▶ connecting
//	any ──close──▶ draining ──▶ closed
//
// It connects only for a use: a server that is not called is left alone.
type link struct {
	s *Source
	linkKey
	auth *oauth.Client // nil if no tokens are sent
	used time.Time     // guarded by the source's lock

	mu      sync.Mutex
	state   state
	reason  string
	up      *upstream     // when ready
	stderr  *proc.Tail    // of the newest program
	earlier *proc.Tail    // of the last program before it that wrote something, or nil
	attempt chan struct{} // closed when the attempt under way has ended
	check   chan struct{} // closed when the check of up under way has ended, or nil
	failure error         // of the last attempt
	pause   time.Duration
	retry   time.Time // when the pause is over
	older   bool      // the server is known to speak no modern revision
	met     bool      // it has been connected before
	about   source.Description
	work    sync.WaitGroup // the attempt, and the watch of each upstream
	life    context.Context
	end     context.CancelFunc // ends life
}

func newLink(s *Source, p linkKey) *link {
	l := &link{s: s, linkKey: p, state: idle, older: p.can != "", about: source.Description{Kind: toolroom.SourceMCP, Title: s.o.Namespace}}
	l.life, l.end = context.WithCancel(context.Background())
	if s.o.Auth != nil {
		l.auth = s.o.Auth(p.who)
	}
	return l
}

// use returns the connection and connects if there is none. Callers that arrive
// during an attempt wait for it. They also wait for a check of the connection: if the
// server fails it, what they would have sent would be lost with the connection.
func (l *link) use(ctx context.Context) (*upstream, error) {
	for {
		l.mu.Lock()
		switch l.state {
		case ready:
			up, check := l.up, l.check
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
			if time.Now().Before(l.retry) {
				err := l.failure
				l.mu.Unlock()
				return nil, err
			}
			l.connect()
		case waiting, idle:
			l.connect()
		case connecting:
		}
		attempt := l.attempt
		l.mu.Unlock()
		select {
		case <-attempt:
			if err := l.failed(); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// failed returns the error of the attempt that has just ended.
func (l *link) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// connect begins an attempt, which all callers share: it continues if the caller
// that began it leaves. If the link needs a login, connect dials only after a login
// has been made. The caller holds the lock.
func (l *link) connect() {
	needsLogin, reason, failure := l.state == waiting, l.reason, l.failure
	l.state, l.reason, l.failure = connecting, "", nil
	done := make(chan struct{})
	l.attempt = done
	older := l.older
	l.work.Go(func() {
		if needsLogin && !l.authorised() {
			l.rest(reason, failure)
			close(done)
			return
		}
		ctx, cancel := context.WithTimeout(l.life, l.s.o.StartTimeout)
		defer cancel()
		var up *upstream
		var err error
		if panicked := panics.Catch(func() { up, err = l.dial(ctx, older) }); panicked != nil {
			up, err = nil, toolroom.Errorf(toolroom.CodeInternal, "connecting to the source %s failed: %w", l.s.o.Namespace, panicked)
		}
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && l.life.Err() == nil {
			err = &slowStart{limit: l.s.o.StartTimeout, err: err}
		}
		anew := false
		if err != nil {
			l.missed(err)
		} else {
			if l.leads() {
				l.s.rewatch(ctx, up)
			}
			anew = l.made(up)
		}
		close(done)
		if anew && l.leads() {
			l.s.changed() // the server may differ from before
		}
	})
}

// slowStart is the error of a server that did not answer within start_timeout.
type slowStart struct {
	limit time.Duration
	err   error
}

func (e *slowStart) Error() string {
	return fmt.Sprintf("it did not answer within %s (start_timeout)", e.limit)
}

func (e *slowStart) Unwrap() error { return e.err }

// leads reports whether this is the operator's connection, whose lists are the
// source's.
func (l *link) leads() bool { return l.linkKey == linkKey{who: l.s.ownerOf(toolroom.Identity{})} }

// made stores a new connection and reports whether there was one before.
func (l *link) made(up *upstream) (anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != connecting { // closed meanwhile
		l.failure = toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the source %s is closed", l.s.o.Namespace)
		up.close()
		return false
	}
	server := up.session.Server()
	l.state, l.reason, l.failure, l.up = ready, "protocol "+server.Version, nil, up
	anew = l.met
	l.pause, l.older, l.met = 0, !server.Modern(), true
	l.about.Title, l.about.Text = up.title(l.s.o.Namespace), server.Instructions
	l.work.Go(func() { panics.Log(l.s.o.Log, "watching a source", func() { l.watch(up) }) })
	return anew
}

// missed handles a failed attempt.
func (l *link) missed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = l.unreachable(err)
	if l.state != connecting {
		return
	}
	l.older = false // the server may have been updated
	l.reason = err.Error()
	if l.park(err) != nil {
		return
	}
	l.state, l.pause = backingOff, min(max(2*l.pause, firstPause), lastPause)
	if advice := remedy(err); advice != "" {
		l.state, l.pause = broken, lastPause
		l.reason += "; " + advice
		l.failure = l.unreachable(err).WithHint("%s", advice).WithCLIHint("")
	}
	// Add jitter, so that many sources behind one dead host do not all reconnect at
	// once.
	l.retry = time.Now().Add(l.pause/2 + rand.N(l.pause/2+1))
}

func (l *link) unreachable(err error) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s cannot be reached: %w", l.s.o.Namespace, err)
	e.Effects = toolroom.EffectsNone
	if refused := toolroom.AsError(err); refused.Code == toolroom.CodeDenied { // by the egress guard
		e.Code, e.Hint, e.CLIHint, e.Retryable = refused.Code, refused.Hint, refused.CLIHint, false
		return e
	}
	if slow := (*slowStart)(nil); errors.As(err, &slow) {
		return l.slow(e)
	}
	return e.WithCLIHint("toolroom sources test %s", l.s.o.Namespace)
}

// slow adds the next step to the error of a server that needed longer than start_timeout.
func (l *link) slow(e *toolroom.Error) *toolroom.Error {
	e = e.WithHint("raise start_timeout of the source")
	if l.s.o.Command == "" {
		return e.WithCLIHint("check its URL, and that it runs: toolroom sources test %s", l.s.o.Namespace)
	}
	return e.WithCLIHint("look at its output: toolroom sources test %s --log-level debug", l.s.o.Namespace)
}

// watch gives up a connection when it has ended or was idle for too long.
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
			l.lose(up, "it ended; the next call starts it again")
			up.close()
			return
		case <-unused:
			if up.unused() >= l.s.o.Idle {
				l.lose(up, "it was not used; the next call starts it again")
			}
		}
	}
}

// lose gives up a connection, so that the next use makes a new one.
func (l *link) lose(up *upstream, reason string) {
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

// doubt pings a server after a call has timed out or had no usable answer, and gives up
// the connection if the server does not answer. Because says what went wrong.
func (l *link) doubt(up *upstream, because string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != up || l.check != nil {
		return
	}
	check := make(chan struct{})
	l.check = check
	l.work.Go(func() {
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.check = nil
			close(check)
		}()
		ctx, cancel := context.WithTimeout(l.life, checkTime)
		defer cancel()
		err := up.session.Ping(ctx)
		rpc := (*mcp.Error)(nil)
		switch {
		case err == nil || errors.As(err, &rpc) || l.life.Err() != nil:
		case errors.Is(err, context.DeadlineExceeded):
			given := fmt.Errorf("the connection was ended, because %s and then the server did not answer a ping within %s", because, checkTime)
			up.givenUp.Store(&given)
			l.lose(up, "it stopped answering; the next call starts it again")
		default:
			l.lose(up, err.Error())
		}
	})
}

// unused reports whether no request has been under way for a time. A task that is polled
// has none between two polls.
func (l *link) unused(since time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up == nil || l.up.busy.Load() == 0 && l.up.unused() >= since
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
	l.end()
	if up != nil {
		up.session.End()
	}
	l.work.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state = closed
}

// endOfEarlier separates the output of a program that has ended from that of the next one.
const endOfEarlier = "\n[the output above is that of the process before]\n"

func (l *link) describe() source.Description {
	l.mu.Lock()
	d, up := l.about, l.up
	d.State, d.Reason = string(l.state), l.reason
	stderr, earlier := l.stderr, l.earlier
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
