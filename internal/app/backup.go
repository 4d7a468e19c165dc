package app

import (
	"context"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/backup"
)

// Backup writes the home and the config to file, also beside a running server. An existing
// file is replaced only if force is set.
func (r *App) Backup(ctx context.Context, file string, force bool) (backup.Manifest, error) {
	if r.isTemp {
		return backup.Manifest{}, toolroom.Errorf(toolroom.CodeUnsupported, "the room has only a temporary home")
	}
	if err := r.recorder.Flush(ctx); err != nil {
		return backup.Manifest{}, err
	}
	c := r.Config()
	store, err := storePath(r.home, c.Store.URL)
	if err != nil {
		return backup.Manifest{}, err
	}
	var files []string
	for _, f := range c.Files() {
		if !filepath.IsAbs(f) {
			f = filepath.Join(filepath.Dir(r.o.ConfigFile), f)
		}
		files = append(files, f)
	}
	return backup.Write(ctx, file, backup.Source{
		Home: r.home, Store: store, Snapshot: r.store.Snapshot, Config: r.o.ConfigFile, Files: files, Version: r.o.Version,
	}, force)
}

// Quarantined returns the number of quarantined tools of each source that has any.
func (r *App) Quarantined() map[string]int {
	counts := map[string]int{}
	for _, h := range r.allManagers() {
		if n := r.definitions.count(h.name); n > 0 {
			counts[h.name] = n
		}
	}
	return counts
}
