package gvisor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
