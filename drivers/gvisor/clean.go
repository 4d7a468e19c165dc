package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// folderName matches the names of bundles and checkpoints: owner and key.
var folderName = regexp.MustCompile(`^` + folderPrefix + `([0-9]+-[0-9]+)-([a-z2-7]{26})$`)

// Clean removes the bundles, sandboxes and cgroups of this user's processes that have
// died. Any user can make a folder beside ours, so Clean ignores those of other users, and
// it uses nothing of a folder but its name: runsc would run the commands in a saved state.
func (d *Driver) Clean(ctx context.Context, dry bool) ([]sandbox.Leftover, error) {
	entries, _ := os.ReadDir(d.o.Work) // a folder that cannot be read has none of ours
	var left []sandbox.Leftover
	for _, e := range entries {
		name := folderName.FindStringSubmatch(e.Name())
		if name == nil || proc.Alive(name[1]) {
			continue
		}
		if info, err := e.Info(); err != nil || !proc.IsOwnFolder(info) {
			continue
		}
		folder := filepath.Join(d.o.Work, e.Name())
		left = append(left, sandbox.Leftover{Kind: "sandbox", Name: folder}.Remove(dry, func() error {
			return remove(ctx, folder, idPrefix+name[2])
		}))
	}
	return left, nil
}

// remove removes a sandbox whose runsc has been killed. Its processes have ended with
// runsc, or end with its cgroups.
func remove(ctx context.Context, folder, id string) error {
	if err := removeCgroups(ctx, id); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}

// removeCgroups removes the cgroups that runsc has left of a container: a runsc that
// was killed before it wrote its state no longer knows them. It kills the
// processes that are still in them.
func removeCgroups(ctx context.Context, id string) error {
	v1, _ := filepath.Glob(filepath.Join("/sys/fs/cgroup/*", id))
	for _, cgroup := range append(v1, filepath.Join("/sys/fs/cgroup", id)) {
		for {
			err := os.Remove(cgroup)
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			killAll(cgroup)
			select {
			case <-ctx.Done():
				return errors.Join(err, context.Cause(ctx))
			case <-time.After(time.Millisecond): // a killed process leaves its cgroup when it has ended
			}
		}
	}
	return nil
}

func killAll(cgroup string) {
	pids, _ := os.ReadFile(filepath.Join(cgroup, "cgroup.procs"))
	for _, field := range strings.Fields(string(pids)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			continue
		}
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	}
}
