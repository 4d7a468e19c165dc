package session

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
)

const (
	lockExtension = ".lock"
	// lockRetry is the interval at which a held lock is tried again.
	lockRetry = 5 * time.Millisecond
)

// lock is a file lock with one holder at a time over all processes. The operating
// system releases it when the holder's process dies.
type lock struct{ file *flock.Flock }

// acquire waits for a lock until ctx ends.
func acquire(ctx context.Context, path string) (*lock, error) {
	for {
		l, free, err := tryAcquire(path)
		if err != nil || free {
			return l, err
		}
		select {
		case <-time.After(lockRetry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// tryAcquire acquires a lock if it is free.
func tryAcquire(path string) (*lock, bool, error) {
	l := &lock{flock.New(path, flock.SetPermissions(0o600))}
	held, err := l.file.TryLock()
	if err != nil {
		return nil, false, fmt.Errorf("lock a session: %w", err)
	}
	if !held {
		return nil, false, l.release()
	}
	// A holder that deletes its session removes the lock file, perhaps the one that
	// has just been locked.
	if !l.isCurrent() {
		return nil, false, l.release()
	}
	return l, true, nil
}

func (l *lock) isCurrent() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.file.Path())
	return err == nil && os.SameFile(held, there)
}

func (l *lock) release() error { return l.file.Close() }

// discard removes the lock's file and releases the lock. If the operating system cannot
// remove an open file, the file, which is empty, stays.
func (l *lock) discard() error {
	_ = os.Remove(l.file.Path())
	return l.release()
}
