//go:build unix

package pod

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// A Pod in which nothing runs, because its Toolroom has died, ends after lonely. Main
// checks every step.
const (
	lonely = time.Minute
	step   = 5 * time.Second
)

// Main is the first process of a Pod. It returns when it is signalled, or when there
// has been no other process for a minute; the kernel then kills all others.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	tick := time.NewTicker(step)
	defer tick.Stop()
	last := time.Now()
	for time.Since(last) < lonely {
		select {
		case <-ctx.Done():
			return 0
		case <-orphans:
			reap()
		case <-tick.C:
			if !alone() {
				last = time.Now()
			}
		}
	}
	return 0
}

// reap reaps ended orphans.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// alone reports whether there is no other process.
func alone() bool {
	processes, err := filepath.Glob("/proc/[0-9]*")
	return err == nil && len(processes) == 1
}
