package artifact

import (
	"context"
	"sync"
	"time"

	"github.com/toolroom/toolroom/internal/identity"
)

// memoryIndex is the index in its simplest form.
type memoryIndex struct {
	mu      sync.Mutex
	entries []*Entry
}

func (x *memoryIndex) AddArtifact(_ context.Context, e *Entry, limits Limits) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := limits.Admit(e.Kind, x.usage(e.Owner, e.Kind, e.Created), e.Size); err != nil {
		return err
	}
	c := *e
	x.entries = append(x.entries, &c)
	return nil
}

func (x *memoryIndex) ArtifactUsage(_ context.Context, owner string, kind Kind, now time.Time) (Usage, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.usage(owner, kind, now), nil
}

func (x *memoryIndex) usage(owner string, kind Kind, now time.Time) (used Usage) {
	for _, e := range x.entries {
		if identity.Subject(e.Owner) == identity.Subject(owner) && e.Kind == kind && e.Expires.After(now) {
			used.Entries++
			used.Bytes += e.Size
		}
	}
	return used
}

func (x *memoryIndex) Artifact(_ context.Context, owner, handle string, now time.Time) (*Entry, error) {
	for _, e := range x.owned(owner, now) {
		if e.Handle == handle {
			return e, nil
		}
	}
	return nil, NotFound(handle)
}

func (x *memoryIndex) Artifacts(_ context.Context, owner string, now time.Time) ([]*Entry, error) {
	return x.owned(owner, now), nil
}

func (x *memoryIndex) owned(owner string, now time.Time) []*Entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	var list []*Entry
	for _, e := range x.entries {
		if identity.OwnerReaches(owner, e.Owner) && e.Expires.After(now) {
			list = append(list, e)
		}
	}
	return list
}

func (x *memoryIndex) DeleteArtifact(ctx context.Context, owner, handle string, now time.Time) error {
	if _, err := x.Artifact(ctx, owner, handle, now); err != nil {
		return err
	}
	x.take(func(e *Entry) bool { return e.Handle == handle })
	return nil
}

func (x *memoryIndex) SweepArtifacts(_ context.Context, now time.Time) ([]*Entry, error) {
	return x.take(func(e *Entry) bool { return !e.Expires.After(now) }), nil
}

func (x *memoryIndex) take(which func(*Entry) bool) []*Entry {
	x.mu.Lock()
	defer x.mu.Unlock()
	var kept, taken []*Entry
	for _, e := range x.entries {
		if which(e) {
			taken = append(taken, e)
		} else {
			kept = append(kept, e)
		}
	}
	x.entries = kept
	return taken
}

func (x *memoryIndex) ArtifactHandles(context.Context) (map[string]bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	handles := map[string]bool{}
	for _, e := range x.entries {
		handles[e.Handle] = true
	}
	return handles, nil
}
