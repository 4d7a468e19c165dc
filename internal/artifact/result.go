package artifact

import (
	"bytes"
	"context"
	"time"

	"github.com/toolroom/toolroom"
)

// minResultAge is how long a result is kept at least, so that a caller can use a handle that
// it has just received, even if a batch returns many at once.
const minResultAge = time.Minute

// PutResult durably stores the result of a call for owner, under a new handle. Secrets in data
// must be redacted already. If the store is full, PutResult removes the oldest results, because
// nobody saved them on purpose. If data is larger than a result may be, it stores the beginning,
// as the size of the artifact shows; if whole is set, the error then has code resource_limit.
func (s *Store) PutResult(ctx context.Context, owner, name, mime string, data []byte, whole bool) (toolroom.Artifact, error) {
	limits := s.limits[Result]
	if most := min(limits.Each, limits.Total); int64(len(data)) > most && !whole {
		data = data[:most]
	}
	// Other callers, also in other processes, may use the space that was freed.
	for tries := 0; ; tries++ {
		enough, err := s.removeOldest(ctx, owner, limits, int64(len(data)))
		if err != nil {
			return toolroom.Artifact{}, err
		}
		kept, err := s.Put(ctx, owner, Result, name, mime, bytes.NewReader(data))
		if !enough || tries == maxTries || toolroom.CodeOf(err) != toolroom.CodeResourceLimit {
			return kept, err
		}
	}
}

// maxTries bounds how often PutResult tries again in a full store. Of the results that are
// stored at the same time, one succeeds in each round.
const maxTries = 100

// removeOldest removes the oldest results of an owner until size bytes more may be stored.
// If removing cannot free enough, it removes nothing and returns false; Put then fails.
func (s *Store) removeOldest(ctx context.Context, owner string, limits Limits, size int64) (enough bool, err error) {
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
