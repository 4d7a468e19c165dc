package pynative

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/engine"
)

// takeChild returns an unused process of the owner's zygote.
func (e *Engine) takeChild(ctx context.Context, owner string, layer engine.Layer) (*child, error) {
	z, err := e.zygote(ctx, owner, layer)
	if err != nil {
		return nil, err
	}
	defer z.release()
	var c *child
	keepsUp := true
	select {
	case c = <-z.spare:
		e.updateStats(func(s *Stats) { s.Hits++ })
	default:
		keepsUp = false
		e.updateStats(func(s *Stats) { s.Misses++ })
		if c, err = z.fork(ctx, false); err != nil && ctx.Err() == nil {
			e.updateStats(func(s *Stats) { s.Failed++ })
		}
	}
	e.refill(z, keepsUp)
	return c, err
}

func (e *Engine) updateStats(what func(*Stats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	what(&e.stats)
}

// zygote returns the owner's zygote for a layer, and starts it if there is none. The caller must
// release it after the fork.
func (e *Engine) zygote(ctx context.Context, owner string, layer engine.Layer) (*zygote, error) {
	if layer.Digest != "" {
		owner += "\x00" + layer.Digest + "\x00" + strings.Join(layer.Preload, ",")
	}
	for {
		e.mu.Lock()
		if e.closed {
			e.mu.Unlock()
			return nil, errors.New("the engine is closed")
		}
		z := e.zygotes[owner]
		e.mu.Unlock()
		if z != nil && z.borrow(e.o.Idle, func() { e.drop(owner, z) }) {
			return z, nil
		}
		if z != nil {
			e.drop(owner, z)
		}
		fresh, err := e.startZygote(ctx, layer)
		if err != nil {
			e.updateStats(func(s *Stats) { s.Failed++ })
			return nil, err
		}
		if old := e.adopt(owner, fresh); old != nil {
			old.end() // another run was faster, or the zygote makes room
		}
	}
}

// adopt makes a new zygote the owner's, unless the owner has another by now. It returns a surplus
// zygote, which the caller must end.
func (e *Engine) adopt(owner string, fresh *zygote) *zygote {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.zygotes[owner] != nil {
		return fresh
	}
	e.zygotes[owner] = fresh
	if len(e.zygotes) <= e.o.Owners {
		return nil
	}
	var oldest *zygote
	var whose string
	for name, z := range e.zygotes {
		if z == fresh {
			continue
		}
		if used, free := z.idleSince(); free && (oldest == nil || used.Before(oldest.lastUsed())) {
			oldest, whose = z, name
		}
	}
	if oldest == nil || !oldest.condemn() {
		return nil
	}
	delete(e.zygotes, whose)
	return oldest
}

// condemn marks a zygote that is free as dead, so that it is not borrowed before it has ended. It
// returns false if a program runs or is about to run.
func (z *zygote) condemn() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.isFree() {
		return false
	}
	z.dead = true
	return true
}

// drop ends a zygote and forgets it.
func (e *Engine) drop(owner string, z *zygote) {
	e.mu.Lock()
	if e.zygotes[owner] == z {
		delete(e.zygotes, owner)
	}
	e.mu.Unlock()
	z.end()
}

// borrow reserves a zygote for a fork, and reports whether it is alive. Until release, the zygote
// is not ended to make room for another, although it may have no process yet.
func (z *zygote) borrow(idle time.Duration, end func()) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.dead {
		return false
	}
	z.lastUse = time.Now()
	z.loans++
	if z.idle == nil {
		z.idle = time.AfterFunc(idle, func() { z.expire(idle, end) })
	}
	return true
}

// release ends a reservation by borrow.
func (z *zygote) release() {
	z.mu.Lock()
	z.loans--
	z.mu.Unlock()
}

// expire ends a zygote that has been idle for too long, or checks again later.
func (z *zygote) expire(idle time.Duration, end func()) {
	z.mu.Lock()
	if z.retired {
		idle = min(idle, retiredIdle)
	}
	left := idle - time.Since(z.lastUse)
	over := z.isFree() && left <= 0
	switch {
	case over:
		z.dead = true // it must not be borrowed any more
	case !z.dead:
		z.idle.Reset(max(left, idle/10))
	}
	z.mu.Unlock()
	if over {
		end()
	}
}

// retiredIdle is how long a zygote of a retired layer stays idle before it ends.
const retiredIdle = 100 * time.Millisecond

// Retire implements [engine.Retirer].
func (e *Engine) Retire(layer engine.Layer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, z := range e.zygotes {
		if layer.Digest != "" && z.layer == layer.Digest {
			z.retire()
		}
	}
}

func (z *zygote) retire() {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.retired = true
	if z.idle != nil && !z.dead {
		z.idle.Reset(retiredIdle)
	}
}

// idleSince returns the time since when the zygote is idle. free is false if a program runs or is
// about to run.
func (z *zygote) idleSince() (since time.Time, free bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.lastUse, z.isFree()
}

// isFree reports whether no program runs or is about to run. The caller holds the lock.
func (z *zygote) isFree() bool { return z.loans == 0 && len(z.children) <= len(z.spare) }

func (z *zygote) lastUsed() time.Time {
	used, _ := z.idleSince()
	return used
}

// refill forks processes for the next programs in the background. If keepsUp is false, programs
// come faster than processes, and a process prepares itself no longer than necessary.
func (e *Engine) refill(z *zygote, keepsUp bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.filling || z.dead {
		return
	}
	z.filling = true
	go func() {
		defer func() {
			z.mu.Lock()
			z.filling = false
			z.mu.Unlock()
		}()
		for len(z.spare) < cap(z.spare) {
			c, err := z.fork(context.Background(), keepsUp)
			if err != nil {
				if !errors.Is(err, errDead) {
					e.updateStats(func(s *Stats) { s.Failed++ })
				}
				return
			}
			z.spare <- c // never blocks: only this goroutine fills it
		}
	}()
}
