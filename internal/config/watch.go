package config

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the file must stay unchanged before it is read, because editors write
// in several steps.
const settle = 100 * time.Millisecond

// WatchVerified calls onChange each time the text of the file has changed, at first from last,
// with the new config or the error, until ctx ends; then it returns nil. The file may be
// replaced, removed and recreated; its folder must exist. Calls do not overlap. The file must
// be one that verify, if not nil, accepts each time. What it accepts depends on the file
// record, whose changes count like those of the config.
func WatchVerified(ctx context.Context, path, record string, last []byte, verify Verify, onChange func(*Config, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", path, err)
	}
	defer watcher.Close()
	// Editors replace files, so the folder is watched, and for a link also the folder of
	// its target.
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("cannot watch the folder of %s: %w", path, err)
	}
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil && resolved != path {
		target = resolved
		if err := watcher.Add(filepath.Dir(target)); err != nil {
			return fmt.Errorf("cannot watch the folder of %s: %w", target, err)
		}
	}

	if record != "" {
		if err := os.MkdirAll(filepath.Dir(record), 0o700); err != nil {
			return err
		}
		if err := watcher.Add(filepath.Dir(record)); err != nil {
			return fmt.Errorf("cannot watch the folder of %s: %w", record, err)
		}
	}

	recorded := false
	var lastErr error
	settled := time.NewTimer(settle) // the file may have changed since last was read
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			// A folder of links, as Kubernetes mounts it, changes when a new link is
			// created beside the file.
			if record != "" && filepath.Dir(event.Name) == filepath.Dir(record) {
				if event.Name == record {
					recorded = true
					settled.Reset(settle)
				}
				continue
			}
			if event.Name == path || event.Name == target || event.Has(fsnotify.Create) {
				settled.Reset(settle)
			}
		case err := <-watcher.Errors:
			onChange(nil, fmt.Errorf("changes of %s may have been missed: %w", path, err))
			settled.Reset(settle)
		case <-settled.C:
			waitForEdit(ctx, target)
			data, err := read(path)
			if bytes.Equal(data, last) && (err == nil) == (lastErr == nil) && !recorded {
				continue
			}
			last, lastErr, recorded = data, err, false
			if err != nil {
				onChange(nil, fmt.Errorf("cannot read the config: %w", err))
				continue
			}
			onChange(parseVerified(path, data, verify))
		}
	}
}

// editTime is how long a change waits for the edit that makes it.
const editTime = 10 * time.Second

// waitForEdit waits until an edit of ours has ended: it records that the text is trusted after
// it has written it. A file whose folder cannot be locked is not edited by us.
func waitForEdit(ctx context.Context, file string) {
	ctx, cancel := context.WithTimeout(ctx, editTime)
	defer cancel()
	lock := editLock(file)
	if locked, err := lock.TryRLockContext(ctx, settle/5); locked && err == nil {
		_ = lock.Close()
	}
}
