// Package mark holds the labels by which a driver knows what it has made, so
// that a later process can remove what a dead one has left behind.
package mark

import (
	"os"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/proc"
)

// The labels. Owner names a process as [proc.Owner] does; that means something
// on one machine only, which Machine names.
const (
	Run     = "toolroom.run"
	Owner   = "toolroom.owner"
	Machine = "toolroom.machine"
)

// Labels are for what this process makes for a run.
func Labels(run string) map[string]string {
	return map[string]string{Run: run, Owner: proc.Owner(), Machine: machine()}
}

// Abandoned says whether what has these labels was made by a process of this
// machine that no longer runs. What another machine made, behind an engine that
// both use, is none of our business.
func Abandoned(labels map[string]string) bool {
	owner := labels[Owner]
	return owner != "" && labels[Machine] == machine() && !proc.Alive(owner)
}

// machine names the running kernel and the PID namespace in which pids of
// owners count; the name of the host where the system tells neither.
var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	pids, nsErr := os.Readlink("/proc/self/ns/pid")
	if err != nil || nsErr != nil {
		name, _ := os.Hostname()
		return "host-" + name
	}
	return strings.TrimSpace(string(boot)) + "-" + strings.Trim(strings.TrimPrefix(pids, "pid:"), "[]")
})
