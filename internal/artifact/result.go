package artifact

import (
	"bytes"
	"context"
	"time"

	"github.com/toolroom/toolroom"
)

// minResultAge is how long a result is kept at least: a handle that a caller has
// just been given can be used, also when a batch gives many at once.
const minResultAge = time.Minute

// PutResult keeps the result of a call for owner, durably, under a new handle. In
// a full store the oldest results give way, because nobody saved them on purpose.
// Of data that is larger than one result may be it keeps the beginning, which the
// artifact's size tells; with whole that is an error with code resource_limit.
func (s *Store) PutResult(ctx context.Context, owner, name, mime string, data []byte, whole bool) (toolroom.Artifact, error) {
	limits := s.limits[Result]
	if most := min(limits.Each, limits.Total); int64(len(data)) > most && !whole {
		data = data[:most]
	}
	// Others may take the room that was made, also those of other processes.
	for tries := 0; ; tries++ {
		made, err := s.makeRoom(ctx, owner, limits, int64(len(data)))
		if err != nil {
			return toolroom.Artifact{}, err
		}
		kept, err := s.Put(ctx, owner, Result, name, mime, bytes.NewReader(data))
		if !made || tries == maxTries || toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
			return kept, err
		}
	}
}

// maxTries is how often a result is tried to be kept again in a full store. Each
// time one of the results kept at once succeeds.
const maxTries = 100

// makeRoom removes the oldest results of an owner until size bytes more may be
// kept. Where that cannot be reached it removes nothing, reports false, and Put
// refuses.
func (s *Store) makeRoom(ctx context.Context, owner string, limits Limits, size int64) (made bool, err error) {
	now := s.now()
	used, err := s.index.ArtifactUsage(ctx, owner, Result, now)
	if err != nil || limits.Admit(Result, used, size) == nil {
		return err == nil, err
	}
	entries, err := s.index.Artifacts(ctx, owner, now)
	if err != nil {
		return false, err
	}
	var old []*Entry
	for _, e := range entries {
		if e.Kind != Result || now.Sub(e.Created) < minResultAge {
			continue
		}
		used.Entries--
		used.Bytes -= e.Size
		old = append(old, e)
		if limits.Admit(Result, used, size) == nil {
			break
		}
	}
	if limits.Admit(Result, used, size) != nil {
		return false, nil
	}
	for _, e := range old {
		if err := s.Delete(ctx, owner, e.Handle); err != nil && toolroom.CodeOf(err) != toolroom.CodeNotFound {
			return false, err
		}
	}
	return true, nil
}
