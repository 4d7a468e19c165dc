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
	// retry is how often a lock that another has is asked for again.
	retry = 5 * time.Millisecond
)

// lock is a file that one holder at a time has, over all processes; the system
// frees it when its process dies.
type lock struct{ file *flock.Flock }

// acquire waits for a lock until ctx ends.
func acquire(ctx context.Context, path string) (*lock, error) {
	for {
		l, free, err := try(path)
		if err != nil || free {
			return l, err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try takes a lock if it is free.
func try(path string) (*lock, bool, error) {
	l := &lock{flock.New(path, flock.SetPermissions(0o600))}
	held, err := l.file.TryLock()
	if err != nil {
		return nil, false, fmt.Errorf("lock a session: %w", err)
	}
	if !held {
		return nil, false, l.release()
	}
	// A holder that deletes its session removes the file, which may have been
	// this one.
	if !l.current() {
		return nil, false, l.release()
	}
	return l, true, nil
}

func (l *lock) current() bool {
	held, err := l.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(l.file.Path())
	return err == nil && os.SameFile(held, there)
}

func (l *lock) release() error { return l.file.Close() }

// discard frees the lock and takes its file away, where the system lets an open
// file go; elsewhere an empty one stays.
func (l *lock) discard() error {
	_ = os.Remove(l.file.Path())
	return l.release()
}
