package hosted

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/sandbox"
)

// Warm says which sandboxes are started before they are asked for. Each serves
// one program and is then removed, as any other.
type Warm struct {
	// Ahead is how many wait for each kind of program: those of the same profile,
	// image and limits as one that has run. Zero means none.
	Ahead int
	// Most is how many wait in all, 4 if zero.
	Most int
	// MaxAge is how long one waits, a minute if zero.
	MaxAge time.Duration
}

// Stats count what became of warm sandboxes.
type Stats struct {
	Size     int // that wait now
	Hits     int // programs that got one
	Misses   int // programs that waited for a start
	Failures int // starts in the background that failed
}

// ready is a sandbox whose guest has said hello, and that no program has seen.
type ready struct {
	box  sandbox.Sandbox
	conn *bridge.Conn
}

func (r *ready) kill(ctx context.Context) error {
	_ = r.conn.Close()
	return r.box.Kill(ctx)
}

// pool keeps the ready ones.
type pool struct {
	warm  Warm
	start func(context.Context, sandbox.Spec) (*ready, error)

	ctx    context.Context // of starts in the background
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex // guards what follows
	kinds  map[string][]*waiting
	coming map[string]int
	stats  Stats
	closed bool
}

// waiting is a ready one with the end of its wait.
type waiting struct {
	*ready
	timer *time.Timer
}

func newPool(w Warm, start func(context.Context, sandbox.Spec) (*ready, error)) *pool {
	if w.Most <= 0 {
		w.Most = 4
	}
	if w.MaxAge <= 0 {
		w.MaxAge = time.Minute
	}
	p := &pool{warm: w, start: start, kinds: map[string][]*waiting{}, coming: map[string]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// kind is what sandboxes must have in common to stand in for one another. The
// wall time is the engine's to hold.
func kind(s sandbox.Spec) (string, sandbox.Spec) {
	s.Run, s.Limits.Wall = "warm", 0
	return fmt.Sprintf("%#v", s), s
}

// take gives a ready sandbox, or nil, and sees that there will be one for the
// next program of the kind.
func (p *pool) take(s sandbox.Spec) *ready {
	if p.warm.Ahead <= 0 {
		return nil
	}
	key, spec := kind(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	var taken *ready
	if list := p.kinds[key]; len(list) > 0 {
		taken, p.kinds[key] = list[0].ready, list[1:]
		list[0].timer.Stop()
		p.stats.Hits++
		p.stats.Size--
	} else {
		p.stats.Misses++
	}
	for !p.closed && len(p.kinds[key])+p.coming[key] < p.warm.Ahead {
		p.coming[key]++
		p.work.Go(func() { p.fill(key, spec) })
	}
	return taken
}

// fill starts one in the background. Where there are enough, one of another
// kind makes room.
func (p *pool) fill(key string, spec sandbox.Spec) {
	r, err := p.start(p.ctx, spec)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.coming[key]--
	if err != nil {
		p.stats.Failures++
		return
	}
	if p.closed || p.stats.Size >= p.warm.Most && !p.makeRoom(key) {
		p.work.Go(func() { remove(r) })
		return
	}
	w := &waiting{ready: r}
	w.timer = time.AfterFunc(p.warm.MaxAge, func() { p.expire(key, w) })
	p.kinds[key] = append(p.kinds[key], w)
	p.stats.Size++
}

func (p *pool) makeRoom(wanted string) bool {
	for key, list := range p.kinds {
		if key != wanted && len(list) > 0 {
			p.drop(key, list[0])
			return true
		}
	}
	return false
}

func (p *pool) expire(key string, w *waiting) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(key, w)
}

// drop removes one that still waits.
func (p *pool) drop(key string, w *waiting) {
	for i, one := range p.kinds[key] {
		if one == w {
			w.timer.Stop()
			p.kinds[key] = append(p.kinds[key][:i:i], p.kinds[key][i+1:]...)
			p.stats.Size--
			p.work.Go(func() { remove(w.ready) })
			return
		}
	}
}

func remove(r *ready) {
	ctx, done := context.WithTimeout(context.Background(), killTimeout)
	defer done()
	_ = r.kill(ctx) // a sandbox that stays is found by its name, see sandbox.Spec.Run
}

// close removes all that wait, and ends starts under way.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.cancel()
	var all []error
	for key, list := range p.kinds {
		for _, w := range list {
			w.timer.Stop()
			ctx, done := context.WithTimeout(context.Background(), killTimeout)
			all = append(all, w.kill(ctx))
			done()
		}
		delete(p.kinds, key)
	}
	p.stats.Size = 0
	p.mu.Unlock()
	p.work.Wait()
	return errors.Join(all...)
}

func (p *pool) now() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}
