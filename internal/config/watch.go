package config

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the file must be left alone before it is read: editors
// write in several steps.
const settle = 100 * time.Millisecond

// Watch calls onChange with the new config, or with what is wrong, each time
// that the text of the file has changed, until ctx ends; then it returns nil.
// The file may be replaced, removed and made anew, or not be there yet; its
// folder must exist. Calls come one after the other.
func Watch(ctx context.Context, path string, onChange func(*Config, error)) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("%s cannot be watched: %w", path, err)
	}
	defer watcher.Close()
	// Editors replace files, so the folder is watched; for a link also the one
	// of its target.
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("the folder of %s cannot be watched: %w", path, err)
	}
	target := path
	if resolved, err := filepath.EvalSymlinks(path); err == nil && resolved != path {
		target = resolved
		if err := watcher.Add(filepath.Dir(target)); err != nil {
			return fmt.Errorf("the folder of %s cannot be watched: %w", target, err)
		}
	}

	last, lastErr := read(path)
	settled := time.NewTimer(settle)
	settled.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			// A folder of links, as Kubernetes mounts it, changes by making a
			// new link beside the file.
			if event.Name == path || event.Name == target || event.Has(fsnotify.Create) {
				settled.Reset(settle)
			}
		case err := <-watcher.Errors:
			onChange(nil, fmt.Errorf("changes of %s may have been missed: %w", path, err))
			settled.Reset(settle)
		case <-settled.C:
			data, err := read(path)
			if bytes.Equal(data, last) && (err == nil) == (lastErr == nil) {
				continue
			}
			last, lastErr = data, err
			if err != nil {
				onChange(nil, fmt.Errorf("the config cannot be read: %w", err))
				continue
			}
			onChange(Parse(path, data))
		}
	}
}
