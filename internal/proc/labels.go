package proc

import (
	"os"
	"strings"
	"sync"
)

// The labels. Owner identifies a process, as in [Owner], which is unique on one
// machine only; Machine identifies that machine.
const (
	LabelRun     = "toolroom.run"
	LabelOwner   = "toolroom.owner"
	LabelMachine = "toolroom.machine"
)

// Labels returns the labels for a run of this process.
func Labels(run string) map[string]string {
	return map[string]string{LabelRun: run, LabelOwner: Owner(), LabelMachine: machine()}
}

// Abandoned reports whether labels are those of a process of this machine that has
// ended. It is false for labels of another machine that uses the same engine.
func Abandoned(labels map[string]string) bool {
	owner := labels[LabelOwner]
	return owner != "" && labels[LabelMachine] == machine() && !Alive(owner)
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
