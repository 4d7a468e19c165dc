package mcpsource

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/oauth"
	"github.com/toolroom/toolroom/source"
)

// state is how a link is. The words are for people.
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

// Pauses between attempts to connect to a server that fails: the first, and
// the longest, which one that is broken has from the start. Within a pause
// calls fail at once. They are short, since a server may be well again, or a
// program mended, at any moment, and nothing is tried but for a call.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 1500 * time.Millisecond
)

// checkTime is how long a server that let a call time out has to show that it
// is alive.
const checkTime = 5 * time.Second

// link is the connection to a server, and the only place that decides when one
// is made and when it is given up:
//
//	idle ──use──▶ connecting ──▶ ready ──ended, not used, not answering──▶ idle
//	                  │
//	                  ├─fails──▶ backing off ──use after the pause──▶ connecting
//	                  ├─cannot work──▶ broken ──use after the longest pause──▶ connecting
//	                  └─refused──▶ waiting for authorisation ──use after a login──▶ connecting
//	any ──close──▶ draining ──▶ closed
//
// Nothing is tried without a use: a server that nobody calls is left alone.
type link struct {
	s *Source
	party
	auth *oauth.Client // nil where no tokens are sent
	used time.Time     // guarded by the source's lock

	mu      sync.Mutex
	state   state
	reason  string
	up      *upstream     // when ready
	attempt chan struct{} // closed when the attempt under way has ended
	failure error         // of the last attempt
	pause   time.Duration
	retry   time.Time // when the pause is over
	older   bool      // the server is known to speak no modern revision
	met     bool      // it has been connected
	about   source.Description
	work    sync.WaitGroup // the attempt, and the watch of each upstream
	life    context.Context
	end     context.CancelFunc // ends life
}

func newLink(s *Source, p party) *link {
	l := &link{s: s, party: p, state: idle, older: p.can != "", about: source.Description{Kind: toolroom.SourceMCP, Title: s.o.Namespace}}
	l.life, l.end = context.WithCancel(context.Background())
	if s.o.Auth != nil {
		l.auth = s.o.Auth(p.who)
	}
	return l
}

// use gives the connection, making it when there is none. Callers that come
// while one connects wait for it.
func (l *link) use(ctx context.Context) (*upstream, error) {
	for {
		l.mu.Lock()
		switch l.state {
		case ready:
			up := l.up
			l.mu.Unlock()
			return up, nil
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

// failed is why the attempt that has just ended failed.
func (l *link) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure
}

// connect begins an attempt. It is everybody's: it goes on when the caller who
// began it leaves. A server that waits for a login is asked when there is one. The
// caller holds the lock.
func (l *link) connect() {
	parked, reason, failure := l.state == waiting, l.reason, l.failure
	l.state, l.reason, l.failure = connecting, "", nil
	done := make(chan struct{})
	l.attempt = done
	older := l.older
	l.work.Go(func() {
		if parked && !l.authorised() {
			l.rest(reason, failure)
			close(done)
			return
		}
		ctx, cancel := context.WithTimeout(l.life, l.s.o.StartTimeout)
		defer cancel()
		up, err := l.dial(ctx, older)
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
			l.s.changed() // it may be another than before
		}
	})
}

// leads reports whether the connection is that of those who run Toolroom, whose
// lists are the source's.
func (l *link) leads() bool { return l.party == party{who: l.s.ownerOf(toolroom.Identity{})} }

// made takes a connection in. It reports whether there was one before.
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
	l.work.Go(func() { l.watch(up) })
	return anew
}

// missed is what follows from an attempt that failed.
func (l *link) missed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = l.unreachable(err)
	if l.state != connecting {
		return
	}
	l.older = false // what was known of it may no longer be so
	l.reason = err.Error()
	if l.park(err) != nil {
		return
	}
	l.state, l.pause = backingOff, min(max(2*l.pause, firstPause), lastPause)
	if advice := hopeless(err); advice != "" {
		l.state, l.pause = broken, lastPause
		l.reason += "; " + advice
		l.failure = l.unreachable(err).WithHint("%s", advice)
	}
	// Jitter, so that many sources behind one dead host do not come as one.
	l.retry = time.Now().Add(l.pause/2 + rand.N(l.pause/2+1))
}

func (l *link) unreachable(err error) *toolroom.Error {
	e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the MCP server %s cannot be reached: %w", l.s.o.Namespace, err)
	e.Details = map[string]any{"effects": toolroom.EffectsNone}
	if refused := toolroom.AsError(err); refused.Code == toolroom.CodeDenied { // by the egress guard
		e.Code, e.Hint, e.Retryable = refused.Code, refused.Hint, false
		return e
	}
	return e.WithHint("see what is wrong: toolroom sources test %s", l.s.o.Namespace)
}

// watch gives a connection up when it has ended, or was not used for long.
func (l *link) watch(up *upstream) {
	var unused <-chan time.Time
	if l.s.o.Idle > 0 && l.s.o.Command != "" {
		ticker := time.NewTicker(max(l.s.o.Idle/4, time.Millisecond))
		defer ticker.Stop()
		unused = ticker.C
	}
	for {
		select {
		case <-up.session.Ended():
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

// lose gives a connection up, so that the next use makes a new one.
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

// doubt asks a server that let a call time out whether it is alive, and gives
// it up when it does not say.
func (l *link) doubt(up *upstream) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != up || !up.doubted.CompareAndSwap(false, true) {
		return
	}
	l.work.Go(func() {
		defer up.doubted.Store(false)
		ctx, cancel := context.WithTimeout(l.life, checkTime)
		defer cancel()
		if err := up.session.Ping(ctx); errors.Is(err, context.DeadlineExceeded) {
			l.lose(up, "it stopped answering; the next call starts it again")
		}
	})
}

// unused reports whether no call is under way.
func (l *link) unused() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up == nil || l.up.busy.Load() == 0
}

// close ends the connection and returns when nothing of it is left.
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

func (l *link) describe() source.Description {
	l.mu.Lock()
	d, up := l.about, l.up
	d.State, d.Reason = string(l.state), l.reason
	l.mu.Unlock()
	if up != nil && up.process != nil {
		d.Process = &source.Process{PID: up.process.PID(), Memory: up.process.Memory(), Stderr: lastLines(up.stderr)}
	}
	return d
}
