//go:build amd64 || arm64

package lockdown

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const everyProcess = "each process by itself"

// heldLimits returns, for each requested limit, how it is enforced.
func (m machine) heldLimits(l Limits, namespaces bool) []Held {
	var held []Held
	add := func(asked bool, limit, by, gap string) {
		if asked {
			held = append(held, Held{Limit: limit, By: by, Gap: gap})
		}
	}
	whole := func(controller, otherwise, gap string) (string, string) {
		if by := m.cgroups.mechanism(controller); by != "" {
			return by, ""
		}
		return otherwise, gap
	}
	by, gap := whole("memory", "rlimit", everyProcess+", and private memory only")
	add(l.Memory > 0, "memory", by, gap)
	if namespaces {
		// A user namespace has a count of its own.
		by, gap = "rlimit", ""
		if cgroup := m.cgroups.mechanism("pids"); cgroup != "" {
			by += ", " + cgroup
		}
	} else {
		by, gap = whole("pids", "", "the limit would count all processes of the user")
	}
	add(l.PIDs > 0, "pids", by, gap)
	by, gap = whole("cpu", "", "there is no cpu controller")
	add(l.CPUs > 0, "cpus", by, gap)
	by, gap = whole("cpuacct", "rlimit", everyProcess)
	add(l.CPUTime > 0, "cpu_time", by, gap)
	by, gap = "tmpfs", ""
	if !namespaces {
		by, gap = "", "without mounts the work folder is on the machine's own file system"
	}
	add(l.Disk > 0, "disk", by, gap)
	add(l.Inodes > 0, "inodes", by, gap)
	add(l.OpenFiles > 0, "open_files", "rlimit", "")
	return held
}

// gaps returns the limits that are not enforced as requested. A partly enforced
// limit counts as a gap unless partly names it.
func gaps(held []Held, partly []string) []Held {
	var missing []Held
	for _, h := range held {
		if h.Gap != "" && (h.By == "" || !slices.Contains(partly, h.Limit)) {
			missing = append(missing, h)
		}
	}
	return missing
}

// rlimits returns the resource limits of the program's own process.
func (m machine) rlimits(l Limits, namespaces bool) []rlimit {
	list := []rlimit{
		// With 0 the machine's core dump handler would still run; the kernel takes 1 to
		// mean none (fs/coredump.c).
		{unix.RLIMIT_CORE, 1},
		{unix.RLIMIT_NOFILE, uint64(l.OpenFiles)},
	}
	if l.PIDs > 0 && namespaces {
		list = append(list, rlimit{unix.RLIMIT_NPROC, uint64(l.PIDs)}) // the script adds init's own threads
	}
	// A limit on address space would end runtimes that reserve much and use little.
	// This one counts private writable memory.
	if l.Memory > 0 && m.cgroups.mechanism("memory") == "" {
		list = append(list, rlimit{unix.RLIMIT_DATA, uint64(l.Memory)})
	}
	if l.CPUTime > 0 {
		seconds := (l.CPUTime + time.Second - 1) / time.Second
		list = append(list, rlimit{unix.RLIMIT_CPU, uint64(seconds)})
	}
	return list
}
