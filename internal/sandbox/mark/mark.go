// Package mark defines the labels on everything that a driver makes, so that a later
// process can remove what a dead one has left behind.
package mark

import (
	"os"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/proc"
)

// The labels. Owner identifies a process, as in [proc.Owner], which is unique on one
// machine only; Machine identifies that machine.
const (
	Run     = "toolroom.run"
	Owner   = "toolroom.owner"
	Machine = "toolroom.machine"
)

// Labels returns the labels for a run of this process.
func Labels(run string) map[string]string {
	return map[string]string{Run: run, Owner: proc.Owner(), Machine: machine()}
}

// Abandoned reports whether labels are those of a process of this machine that has
// ended. It is false for labels of another machine that uses the same engine.
func Abandoned(labels map[string]string) bool {
	owner := labels[Owner]
	return owner != "" && labels[Machine] == machine() && !proc.Alive(owner)
}

// machine identifies the running kernel and the PID namespace in which process ids are
// valid, or is the host name if the system reports neither.
var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, nsErr := os.Readlink("/proc/self/ns/pid")
	if err != nil || nsErr != nil {
		name, _ := os.Hostname()
		return "host-" + name
	}
	return strings.TrimSpace(string(boot)) + "-" + strings.Trim(strings.TrimPrefix(pids, "pid:"), "[]")
})
