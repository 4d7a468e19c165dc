package hosted

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// Warm configures how many sandboxes are started in advance. Each serves one
// program and is then removed, like any other.
type Warm struct {
	// Size is how many sandboxes wait in each profile.
	Size int
	// MaxAge is how long a sandbox waits before another replaces it, 10 minutes if
	// zero.
	MaxAge time.Duration
}

const defaultMaxAge = 10 * time.Minute

// Stats counts the warm sandboxes of one profile since [Engine.Warm].
type Stats struct {
	Profile  sandbox.Profile
	Size     int // intended to wait
	Ready    int // waiting
	Starting int // starting, or queued after a failure
	Taken    int // programs that got a warm sandbox
	Drained  int // programs that found none of their kind and waited for a start
	Failures int // starts that failed, and sandboxes that ended while they waited
	// Problem is the error of the last start, nil if it succeeded.
	Problem error
}

// ready is a sandbox whose guest has sent hello and that no program has used.
type ready struct {
	sb   sandbox.Sandbox
	conn *bridge.Conn
}

func (r *ready) kill(ctx context.Context) error {
	_ = r.conn.Close()
	return r.sb.Kill(ctx)
}

// idleSandbox is a ready sandbox that waits in a pool.
type idleSandbox struct {
	*ready
	kind  string
	spec  sandbox.Spec
	timer *time.Timer   // fires when it reaches MaxAge
	left  chan struct{} // closed when it leaves the pool
}

// pool keeps the ready sandboxes of one profile. At first they are of the kind of base. When a
// program of another kind comes, the pool expects more of them and replaces a sandbox by one of
// that kind.
type pool struct {
	warm  Warm
	base  sandbox.Spec
	start func(context.Context, sandbox.Spec) (*ready, error)

	ctx    context.Context // of starts and of watching their sandboxes
	cancel context.CancelFunc
	work   sync.WaitGroup
	wake   chan struct{} // there may be something to start

	mu      sync.Mutex     // guards the fields below
	lazy    bool           // sandboxes that grow too old are not replaced before a program comes
	waiting []*idleSandbox // the oldest first
	queue   []sandbox.Spec
	delayed time.Time // when the next start may begin, while a sandbox waits
	// language is that of the last program, if the sandboxes prepare an interpreter for it.
	language string
	failed   int // starts in a row
	stats    Stats
}

// newPool returns a pool and starts to fill it in the background.
func newPool(w Warm, base sandbox.Spec, start func(context.Context, sandbox.Spec) (*ready, error)) *pool {
	if w.MaxAge <= 0 {
		w.MaxAge = defaultMaxAge
	}
	p := &pool{
		warm: w, base: base, start: start, wake: make(chan struct{}, 1),
		queue: slices.Repeat([]sandbox.Spec{base}, w.Size), stats: Stats{Profile: base.Profile, Size: w.Size},
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.work.Go(p.fill)
	return p
}

// kindKey returns a key that is equal for specs whose sandboxes are interchangeable, and the spec
// without its wall time, which the engine enforces.
func kindKey(s sandbox.Spec) (string, sandbox.Spec) {
	s.Run, s.Limits.Wall = "warm", 0
	return fmt.Sprintf("%#v", s), s
}

// take returns a ready sandbox for a program in a language and queues a replacement of its kind,
// or returns nil.
func (p *pool) take(s sandbox.Spec, language string) *ready {
	wanted, _ := kindKey(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	if language == "python" || language == "javascript" {
		p.language = language
	}
	for _, w := range p.waiting {
		if w.kind == wanted && !w.ended() {
			p.unlist(w)
			p.stats.Taken++
			if len(p.queue) == 0 {
				p.delayed = time.Now().Add(startDelay)
			}
			p.enqueue(w.spec)
			return w.ready
		}
	}
	p.stats.Drained++
	for p.lazy && len(p.queue)+len(p.waiting) < p.warm.Size {
		p.enqueue(p.base)
	}
	return nil
}

// replaceOldest replaces the oldest sandbox by one of a kind that the pool lacked and that has
// started before.
func (p *pool) replaceOldest(s sandbox.Spec) {
	wanted, spec := kindKey(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	same := func(s sandbox.Spec) bool {
		k, _ := kindKey(s)
		return k == wanted
	}
	if slices.ContainsFunc(p.queue, same) || slices.ContainsFunc(p.waiting, func(w *idleSandbox) bool { return w.kind == wanted }) {
		return
	}
	if len(p.waiting) == 0 {
		return // all are being started and will get their turn
	}
	p.drop(p.waiting[0])
	p.enqueue(spec)
}

// fill starts the queued sandboxes, one at a time so that running programs keep their share of
// the machine. After a failed start it pauses and then tries the base kind.
func (p *pool) fill() {
	for p.ctx.Err() == nil {
		spec, pause, delayed, any := p.nextStart()
		if !any {
			select {
			case <-p.wake:
			case <-p.ctx.Done():
			}
			continue
		}
		wake := p.wake
		if !delayed {
			wake = nil
		}
		select {
		case <-time.After(pause):
		case <-wake: // there may be none left
			continue
		case <-p.ctx.Done():
			return
		}
		r, err := p.start(p.ctx, p.prepared(spec))
		p.recordStart(spec, r, err)
	}
}

// prepared returns the spec of a sandbox whose guest prepares the interpreter that the last
// program needed. Python's takes several times as long as most programs, and would be ended
// unused if programs are in JavaScript.
func (p *pool) prepared(s sandbox.Spec) sandbox.Spec {
	p.mu.Lock()
	defer p.mu.Unlock()
	// The specs of a lazy pool name the language of its programs, and Python is the default.
	if !p.lazy && p.language == "javascript" {
		s.Env = append(slices.Clone(s.Env), guest.AheadLanguageEnv+"="+p.language)
	}
	return s
}

// Pauses after failed starts. Each is twice as long as the one before.
const (
	firstPause   = time.Second
	longestPause = time.Minute
)

// startDelay is how long the replacement of a sandbox waits to be started. A start takes a
// processor for longer than most programs do, and would slow down the program that took the
// sandbox.
const startDelay = 25 * time.Millisecond

// nextStart returns the spec of the next start, and the pause before it. If delayed is set, the
// pause ends early when no sandbox waits any more.
func (p *pool) nextStart() (s sandbox.Spec, pause time.Duration, delayed, any bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return s, 0, false, false
	}
	if p.failed > 0 {
		return p.queue[0], min(firstPause<<min(p.failed-1, 10), longestPause), false, true
	}
	if len(p.waiting) > 0 {
		pause = time.Until(p.delayed)
	}
	return p.queue[0], pause, pause > 0, true
}

// recordStart records the result of starting the first spec in the queue.
func (p *pool) recordStart(s sandbox.Spec, r *ready, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		if r != nil {
			p.work.Go(func() { remove(r) })
		}
		return
	}
	if err != nil {
		p.queue[0] = p.base
		p.recordFailure(err)
		return
	}
	p.queue = p.queue[1:]
	p.failed, p.stats.Problem = 0, nil
	k, spec := kindKey(s)
	w := &idleSandbox{ready: r, kind: k, spec: spec, left: make(chan struct{})}
	w.timer = time.AfterFunc(p.warm.MaxAge, func() { p.replace(w, nil) })
	p.waiting = append(p.waiting, w)
	p.work.Go(func() {
		select {
		case <-w.conn.Ended():
			p.replace(w, errors.New("the guest ended while it waited"))
		case <-w.left:
		}
	})
}

func (p *pool) recordFailure(err error) {
	p.failed++
	p.stats.Failures++
	p.stats.Problem = err
}

// replace removes an idle sandbox and queues another. The failure is nil if the sandbox has only
// become too old.
func (p *pool) replace(w *idleSandbox, failure error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || !slices.Contains(p.waiting, w) {
		return
	}
	if failure != nil {
		p.recordFailure(failure)
	}
	p.drop(w)
	if failure == nil {
		p.language = "" // an unused pool prepares what most programs need
	}
	if !p.lazy || failure != nil {
		p.enqueue(p.base)
	}
}

func (p *pool) enqueue(s sandbox.Spec) {
	p.queue = append(p.queue, s)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// unlist takes a sandbox out of the pool without removing it. The caller holds the lock.
func (p *pool) unlist(w *idleSandbox) {
	w.timer.Stop()
	close(w.left)
	p.waiting = slices.DeleteFunc(p.waiting, func(one *idleSandbox) bool { return one == w })
}

// drop takes a sandbox out of the pool and removes it.
func (p *pool) drop(w *idleSandbox) {
	p.unlist(w)
	p.work.Go(func() { remove(w.ready) })
}

func (w *idleSandbox) ended() bool {
	select {
	case <-w.conn.Ended():
		return true
	default:
		return false
	}
}

func remove(r *ready) {
	ctx, done := context.WithTimeout(context.Background(), killTimeout)
	defer done()
	_ = r.kill(ctx) // sandbox.Cleaner finds a sandbox that is left behind by its mark
}

// close removes all idle sandboxes and cancels the start under way.
func (p *pool) close() {
	p.mu.Lock()
	p.cancel()
	for _, w := range slices.Clone(p.waiting) {
		p.drop(w)
	}
	p.mu.Unlock()
	p.work.Wait()
}

func (p *pool) snapshot() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.Ready, s.Starting = len(p.waiting), len(p.queue)
	return s
}
