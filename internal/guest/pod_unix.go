//go:build unix

package guest

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Pod without a guest, because its Toolroom has died, ends after podLonely.
// podMain checks every podStep.
const (
	podLonely = time.Minute
	podStep   = 5 * time.Second
)

// podMain is the first process of a Pod. It returns when it is signalled, or when there
// has been no guest for a minute; the kernel then kills all other processes.
func podMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	orphans := make(chan os.Signal, 1)
	signal.Notify(orphans, syscall.SIGCHLD)
	tick := time.NewTicker(podStep)
	defer tick.Stop()
	last := time.Now()
	for time.Since(last) < podLonely {
		select {
		case <-ctx.Done():
			return 0
		case <-orphans:
			reapPod()
		case <-tick.C:
			if podGuests("/proc") > 0 {
				last = time.Now()
			}
		}
	}
	return 0
}

// reapPod reaps ended orphans.
func reapPod() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// podGuests returns the number of processes that the node has started in the Pod, besides this
// one. They have no parent in it. What a program leaves behind becomes a child of this
// process, and keeps no Pod alive.
func podGuests(proc string) int {
	n := 0
	processes, _ := filepath.Glob(filepath.Join(proc, "[0-9]*", "stat"))
	for _, path := range processes {
		text, err := os.ReadFile(path)
		if err != nil || path == filepath.Join(proc, "1", "stat") {
			continue // it has ended
		}
		// proc_pid_stat(5): pid (name) state parent; the name may have parentheses of its own.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 1 && fields[1] == "0" && fields[0] != "Z" {
			n++
		}
	}
	return n
}
