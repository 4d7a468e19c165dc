package app

import (
	"context"
	"path/filepath"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/backup"
)

// Backup writes the home and the config to file, also beside a running server. An existing
// file is replaced only if force is set.
func (a *App) Backup(ctx context.Context, file string, force bool) (backup.Manifest, error) {
	if a.isTemp {
		return backup.Manifest{}, toolroom.Errorf(toolroom.CodeUnsupported, "the room has only a temporary home")
	}
	if err := a.recorder.Flush(ctx); err != nil {
		return backup.Manifest{}, err
	}
	c := a.Config()
	store, err := storePath(a.home, c.Store.URL)
	if err != nil {
		return backup.Manifest{}, err
	}
	var files []string
	for _, f := range c.Files() {
		if !filepath.IsAbs(f) {
			f = filepath.Join(filepath.Dir(a.o.ConfigFile), f)
		}
		files = append(files, f)
	}
	return backup.Write(ctx, file, backup.Source{
		Home: a.home, Store: store, Snapshot: a.store.Snapshot, Config: a.o.ConfigFile, Files: files, Version: a.o.Version,
	}, force)
}
