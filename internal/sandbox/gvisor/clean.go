package gvisor

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Clean removes the bundles, sandboxes and cgroups of processes that have died.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	folders, err := filepath.Glob(filepath.Join(d.o.Work, folderPrefix+"*"))
	if err != nil {
		return nil, err
	}
	var left []sandbox.Leftover
	for _, folder := range folders {
		name := strings.TrimPrefix(filepath.Base(folder), folderPrefix)
		end := strings.LastIndexByte(name, '-')
		if end < 0 || proc.Alive(name[:end]) {
			continue
		}
		left = append(left, sandbox.Leftover{Kind: "sandbox", Name: folder}.Remove(dry, func() error {
			return d.remove(ctx, folder, idPrefix+name[end+1:])
		}))
	}
	return left, nil
}

// remove removes a sandbox whose runsc has been killed, by its state and its
// cgroups.
func (d *Driver) remove(ctx context.Context, folder, id string) error {
	if program, err := d.find(); err == nil {
		_ = exec.CommandContext(ctx, program, "--root", filepath.Join(folder, "state"), "delete", "--force", id).Run() // there may be no state yet
	}
	if err := removeCgroups(ctx, id); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}
