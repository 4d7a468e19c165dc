//go:build amd64 || arm64

package lockdown

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/toolroom/toolroom/internal/proc"
)

// controllers are the cgroup controllers that enforce limits. In version 1 each
// may have a tree of its own; in version 2 cpuacct is part of cpu.
var controllers = []string{"memory", "pids", "cpu", "cpuacct"}

// cgroups maps each controller to the folder in which groups can be made. A
// machine can have some controllers in version 1 and others in version 2.
type cgroups map[string]cgroupFolder

type cgroupFolder struct {
	version int
	path    string
}

// ownerPrefix starts the names of cgroups and folders that a Toolroom process
// makes. proc.Owner follows, so that they can be removed after that process has
// ended.
const ownerPrefix = "toolroom-sandbox-"

// ownName returns a unique name.
func ownName() string {
	return ownerPrefix + proc.Owner() + "-" + strconv.FormatUint(rand.Uint64(), 10)
}

// ownerOf parses the owner, a process id and a start time, from a name made by
// ownName.
func ownerOf(name string) (owner string, ok bool) {
	rest, ok := strings.CutPrefix(name, ownerPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return "", false
	}
	for _, part := range parts {
		if _, err := strconv.ParseUint(part, 10, 64); err != nil {
			return "", false
		}
	}
	return parts[0] + "-" + parts[1], true
}

// findCgroups finds the groups of this process (cgroups(7)) and the folders in
// which it may make its own. The error says why controllers are missing.
func findCgroups() (cgroups, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	found := cgroups{}
	var problems []error
	for _, line := range strings.Split(strings.TrimSpace(string(membership)), "\n") {
		fields := strings.SplitN(line, ":", 3)
		if len(fields) != 3 {
			continue
		}
		names, version := strings.Split(fields[1], ","), 1
		if fields[0] == "0" {
			names, version = controllers, 2
		}
		for _, name := range names {
			if _, have := found[name]; have || !slices.Contains(controllers, name) {
				continue
			}
			mount, ok := cgroupMount(mounts, name, version, fields[2])
			if !ok {
				continue
			}
			folder, err := usable(name, version, mount)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			found[name] = cgroupFolder{version, folder}
		}
	}
	return found, errors.Join(problems...)
}

// cgroupMount returns the folder of a process's own group: the mount whose options
// name the controller, joined with the group's path relative to the mount's root.
func cgroupMount(mountinfo []byte, controller string, version int, group string) (folder string, ok bool) {
	for line := range bytes.Lines(mountinfo) {
		// 30 23 0:26 /root /sys/fs/cgroup/cpu rw,... - cgroup cgroup rw,cpu
		before, after, _ := strings.Cut(string(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 3 {
			continue
		}
		matches := version == 2 && kind[0] == "cgroup2" ||
			version == 1 && kind[0] == "cgroup" && slices.Contains(strings.Split(kind[2], ","), controller)
		if !matches {
			continue
		}
		rel, err := filepath.Rel(fields[3], group)
		if err != nil || !filepath.IsLocal(rel) {
			rel = "."
		}
		return filepath.Join(fields[4], rel), true
	}
	return "", false
}

// usable returns the folder, at or above the process's own, in which a group with
// the controller can be made. In version 2 a group that holds processes cannot
// delegate controllers to groups below it, so a sibling is made instead.
func usable(controller string, version int, folder string) (string, error) {
	if version == 1 {
		return folder, syscall.Access(folder, 2)
	}
	if controller == "cpuacct" {
		controller = "cpu"
	}
	for _, candidate := range []string{folder, filepath.Dir(folder)} {
		enabled := filepath.Join(candidate, "cgroup.subtree_control")
		if !hasWord(enabled, controller) {
			if !hasWord(filepath.Join(candidate, "cgroup.controllers"), controller) {
				continue
			}
			if os.WriteFile(enabled, []byte("+"+controller), 0) != nil {
				continue
			}
		}
		if syscall.Access(candidate, 2) == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("no %s controller in the cgroup v2 at %s", controller, folder)
}

func hasWord(path, word string) bool {
	text, err := os.ReadFile(path)
	return err == nil && slices.Contains(strings.Fields(string(text)), word)
}

// describe returns, for example, "cgroup v1: memory, pids, cpu".
func (c cgroups) describe() string {
	var names []string
	version := 0
	for _, name := range controllers {
		if folder, ok := c[name]; ok && name != "cpuacct" {
			names, version = append(names, name), folder.version
		}
	}
	return fmt.Sprintf("cgroup v%d: %s", version, strings.Join(names, ", "))
}

// mechanism names the mechanism that enforces a limit of the controller, or returns "".
func (c cgroups) mechanism(controller string) string {
	folder, ok := c[controller]
	if !ok {
		return ""
	}
	return "cgroup v" + strconv.Itoa(folder.version)
}

// group is one run's group in each cgroup tree.
type group struct {
	folders cgroups
}

// create makes a group and sets the limits. It uses the cpu controller only if
// there is a CPU limit, because a server with real-time priority cannot enter a
// group of that controller.
func (c cgroups) create(name string, l Limits) (*group, error) {
	g := &group{folders: cgroups{}}
	for controller, folder := range c {
		if controller == "cpu" && l.CPUs == 0 {
			continue
		}
		own := cgroupFolder{folder.version, filepath.Join(folder.path, name)}
		if !slices.Contains(slices.Collect(maps.Values(g.folders)), own) { // controllers may share a tree
			if err := os.Mkdir(own.path, 0o755); err != nil {
				g.remove()
				return nil, fmt.Errorf("make a cgroup: %w", err)
			}
		}
		g.folders[controller] = own
	}
	if err := g.limit(l); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// threadsOfInit is the greatest number of threads of init, which count in addition
// to the program's.
const threadsOfInit = 16

const cpuPeriod = 100_000 // microseconds

func (g *group) limit(l Limits) error {
	var errs []error
	if l.Memory > 0 {
		errs = append(errs, g.write("memory", "memory.limit_in_bytes", "memory.max", strconv.FormatInt(l.Memory, 10)))
		// Without swap this file does not exist, and there is nothing to limit.
		_ = g.write("memory", "memory.memsw.limit_in_bytes", "", strconv.FormatInt(l.Memory, 10))
		_ = g.write("memory", "", "memory.swap.max", "0")
		_ = g.write("memory", "", "memory.oom.group", "1")
	}
	if l.PIDs > 0 {
		errs = append(errs, g.write("pids", "pids.max", "pids.max", strconv.Itoa(l.PIDs+threadsOfInit)))
	}
	if l.CPUs > 0 {
		quota := strconv.FormatInt(max(1000, int64(l.CPUs*cpuPeriod)), 10)
		errs = append(errs,
			g.write("cpu", "cpu.cfs_period_us", "", strconv.Itoa(cpuPeriod)),
			g.write("cpu", "cpu.cfs_quota_us", "", quota),
			g.write("cpu", "", "cpu.max", quota+" "+strconv.Itoa(cpuPeriod)))
	}
	return errors.Join(errs...)
}

// write sets the file for the controller's cgroup version; an empty name means
// that the version has no such file.
func (g *group) write(controller, v1, v2, text string) error {
	folder, ok := g.folders[controller]
	name := v1
	if folder.version == 2 {
		name = v2
	}
	if !ok || name == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(folder.path, name), []byte(text), 0); err != nil {
		return fmt.Errorf("set a limit: %w", err)
	}
	return nil
}

// each calls f once per folder.
func (g *group) each(f func(dir string)) {
	var done []string
	for _, folder := range g.folders {
		if !slices.Contains(done, folder.path) {
			done = append(done, folder.path)
			f(folder.path)
		}
	}
}

func (g *group) number(controller, v1, v2 string) int64 {
	folder := g.folders[controller]
	name := v1
	if folder.version == 2 {
		name = v2
	}
	file, key, keyed := strings.Cut(name, "#")
	text, err := os.ReadFile(filepath.Join(folder.path, file))
	if err != nil {
		return 0
	}
	value := strings.TrimSpace(string(text))
	if keyed {
		for line := range strings.Lines(value) {
			if rest, ok := strings.CutPrefix(line, key+" "); ok {
				value = strings.TrimSpace(rest)
			}
		}
	}
	n, _ := strconv.ParseInt(value, 10, 64)
	return n
}

// cpu returns the processor time of all processes that were ever in the group.
func (g *group) cpu() time.Duration {
	if folder := g.folders["cpuacct"]; folder.version == 2 {
		return time.Duration(g.number("cpuacct", "", "cpu.stat#usage_usec")) * time.Microsecond
	}
	return time.Duration(g.number("cpuacct", "cpuacct.usage", ""))
}

func (g *group) usage() Usage {
	return Usage{CPU: g.cpu(), Memory: g.number("memory", "memory.max_usage_in_bytes", "memory.peak")}
}

// outOfMemory reports whether the kernel killed a process because of the memory
// limit.
func (g *group) outOfMemory() bool {
	return g.number("memory", "memory.oom_control#oom_kill", "memory.events#oom_kill") > 0
}

// kill kills all processes in the group.
func (g *group) kill() {
	g.each(killCgroup)
}

// remove removes the group, which must not contain living processes.
func (g *group) remove() {
	g.each(removeCgroup)
}

func killCgroup(dir string) {
	if os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) == nil {
		return
	}
	// Version 1 has no such file. The next round catches processes that were
	// forked in the meantime.
	for range 100 {
		procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		fields := strings.Fields(string(procs))
		if err != nil || len(fields) == 0 {
			return
		}
		for _, field := range fields {
			if pid, err := strconv.Atoi(field); err == nil && pid != os.Getpid() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// removeCgroup removes dir, waiting briefly for ending processes.
func removeCgroup(dir string) {
	for range 50 {
		if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
