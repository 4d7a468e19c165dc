package microvm

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/drivers/turn"
)

// fromSnapshot starts a VM from the snapshot of its shape, making the snapshot first if there
// is none.
func (d *Driver) fromSnapshot(ctx context.Context, s machineSpec) (*machine, error) {
	folder, err := d.templateFolder(ctx, s)
	if err != nil {
		return nil, err
	}
	t := &template{memory: filepath.Join(folder, "memory"), state: filepath.Join(folder, "state")}
	release, err := takeTurn(ctx, d.turnFor(folder)) // else a template would be made twice
	if err != nil {
		return nil, err
	}
	_, err = os.Stat(folder)
	if os.IsNotExist(err) {
		err = d.makeTemplate(ctx, s, folder)
	}
	release()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // trim removes the least recently used ones first
	return d.monitor.restore(ctx, s, t)
}

// turnFor returns the turn that callers take to make the template of a folder.
func (d *Driver) turnFor(folder string) turn.Turn {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.templates[folder] == nil {
		d.templates[folder] = turn.New()
	}
	return d.templates[folder]
}

// templateFolder returns a path that depends on everything that a snapshot depends on,
// including the boot of the host machine, after which its clock starts again.
func (d *Driver) templateFolder(ctx context.Context, s machineSpec) (string, error) {
	found, err := d.findAccelerator(ctx)
	if err != nil {
		return "", err
	}
	disk, err := os.Stat(s.disk)
	if err != nil {
		return "", err
	}
	kernel, err := os.Stat(s.kernel)
	if err != nil {
		return "", err
	}
	key := digest(found.Key, s.initrd, s.initArgs(), s.disk, s.kernel, disk.ModTime().String(), kernel.ModTime().String(),
		strconv.FormatInt(s.memory, 10), strconv.Itoa(s.cpus), strconv.FormatBool(s.kvm))
	return filepath.Join(d.o.Folder, "snapshots", d.name+"-"+key), nil
}

// makeTemplate boots a VM and saves its state when it waits for its settings. The state
// contains nothing of any run.
func (d *Driver) makeTemplate(ctx context.Context, s machineSpec, folder string) error {
	parent := filepath.Dir(folder)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	d.trim(parent)
	making, err := os.MkdirTemp(parent, ".making-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(making)
	t := &template{memory: filepath.Join(making, "memory"), state: filepath.Join(making, "state")}
	m, err := d.monitor.boot(ctx, s, t)
	if err != nil {
		return err
	}
	defer m.kill()
	if err := m.awaitReady(ctx); err != nil {
		return err
	}
	if err := d.monitor.snapshot(ctx, m, t); err != nil {
		return err
	}
	m.kill()
	err = os.Rename(making, folder)
	if os.IsExist(err) { // another process was first, and its snapshot is as good
		err = nil
	}
	return err
}

// maxTemplates is the maximum number of snapshots; each takes as much disk space as its
// VM had used memory.
const maxTemplates = 8

// maxUnfinishedAge is the age at which an unfinished snapshot must be a leftover.
const maxUnfinishedAge = time.Hour

// trim removes the least recently used snapshots, and leftovers of processes that died. A
// VM that was restored still has its memory mapped.
func (d *Driver) trim(folder string) {
	entries, _ := os.ReadDir(folder)
	var infos []os.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), "."):
			if time.Since(info.ModTime()) > maxUnfinishedAge {
				os.RemoveAll(filepath.Join(folder, e.Name()))
			}
		default:
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b os.FileInfo) int { return cmp.Compare(b.ModTime().UnixNano(), a.ModTime().UnixNano()) })
	for len(infos) >= maxTemplates {
		os.RemoveAll(filepath.Join(folder, infos[len(infos)-1].Name()))
		infos = infos[:len(infos)-1]
	}
}
