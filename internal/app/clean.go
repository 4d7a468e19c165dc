package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/backup"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Cleaned is one leftover of a Toolroom process that no longer runs.
type Cleaned struct {
	// Driver is a sandbox driver, or machine for leftovers that belong to no driver.
	Driver string `json:"driver"`
	sandbox.Leftover
}

// cleanTimeout limits the wait for one engine.
const cleanTimeout = time.Minute

// Clean lists the leftovers of killed Toolroom processes: processes, containers, cgroups,
// folders and other things that drivers create. It removes them unless dry is set. It
// leaves alone everything without our mark and everything of running processes. unasked
// maps the engines that could not be asked, including those that are not installed, to the
// reasons.
func (a *App) Clean(ctx context.Context, dry bool) (list []Cleaned, unasked map[string]string) {
	seen := map[string]bool{} // drivers share the system's temporary folder
	add := func(driver string, left ...sandbox.Leftover) {
		for _, l := range left {
			if key := l.Kind + " " + l.Name; !seen[key] {
				seen[key] = true
				list = append(list, Cleaned{driver, l})
			}
		}
	}
	for _, o := range proc.Orphans() {
		add("machine", sandbox.Leftover{Kind: "process", Name: fmt.Sprintf("%d %s", o.PID, o.Command)}.Remove(dry, o.Kill))
	}
	unasked = map[string]string{}
	for _, d := range a.drivers {
		c, ok := d.(sandbox.Cleaner)
		if !ok {
			continue
		}
		asking, done := context.WithTimeout(ctx, cleanTimeout)
		left, err := c.Clean(asking, dry)
		done()
		if err != nil {
			unasked[d.Name()] = err.Error()
		}
		add(d.Name(), left...)
	}
	add("machine", proc.CleanFolders("", dry)...)
	return list, unasked
}

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
