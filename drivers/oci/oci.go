// Package oci translates a sandbox's specification into an OCI runtime specification,
// for drivers that pass such bundles to a runtime.
package oci

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Options are chosen by the driver.
type Options struct {
	// ID is the id of the container.
	ID string
	// Root is the path of the root file system, absolute or relative to the bundle.
	Root string
	// Mounts are added to those of every container.
	Mounts []specs.Mount
	// GVisor means that the runtime is runsc.
	GVisor bool
}

// GuestPath is the path of the guest in a container, and WorkFolder the folder in which its
// programs run.
const (
	GuestPath  = "/run/toolroom-guest"
	WorkFolder = "/work"
)

const (
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	nobody     = 65534
)

// Defaults of a container without limits, the same as the process driver's. No limit changes
// MaxInodes, which is that of each folder in memory.
const (
	defaultDisk = 64 << 20
	defaultPIDs = 512
	MaxInodes   = 16384
)

// User returns the user of a container: nobody or, if it shows folders, the server's user,
// whose files they are. It has no capabilities, even as root.
func User(s sandbox.Spec) (uid, gid int) {
	if len(s.Folders) > 0 {
		return os.Getuid(), os.Getgid()
	}
	return nobody, nobody
}

// Environment returns the environment of a guest.
func Environment(s sandbox.Spec) []string {
	return slices.Concat([]string{"PATH=" + searchPath, "HOME=" + WorkFolder, "LANG=C.UTF-8", guest.WorkEnv + "=" + WorkFolder}, guest.Filter(s.Profile), s.Env)
}

// Sizes returns the sizes of the writable folders, which share the disk limit: WorkFolder,
// /dev/shm and, under gVisor, /tmp. If that is empty, gVisor would mount one itself, without
// a size.
func Sizes(l sandbox.Limits, gVisor bool) (work, shm, tmp int64) {
	disk := cmp.Or(l.Disk, defaultDisk)
	if gVisor {
		tmp = disk / 8
	}
	return disk - disk/8 - tmp, disk / 8, tmp
}

// PIDs returns the maximum number of processes of a container.
func PIDs(l sandbox.Limits) int64 { return int64(cmp.Or(l.PIDs, defaultPIDs)) }

// CPUSeconds returns the processor time of each process, zero for no limit.
func CPUSeconds(l sandbox.Limits) int64 { return int64((l.CPU + time.Second - 1) / time.Second) }

// version is the oldest version of the specification that has all features used here,
// so that older runtimes accept it.
const version = "1.0.2"

// Spec returns the specification of the container for a guest.
func Spec(s sandbox.Spec, o Options) *specs.Spec {
	uid, gid := User(s)
	user := specs.User{UID: uint32(uid), GID: uint32(gid)}
	spec := &specs.Spec{
		Version:     version,
		Hostname:    "toolroom",
		Root:        &specs.Root{Path: o.Root, Readonly: true},
		Annotations: proc.Labels(s.Run),
		Process: &specs.Process{
			Args:            append([]string{GuestPath}, s.Args...),
			Env:             Environment(s),
			Cwd:             WorkFolder,
			User:            user,
			Capabilities:    &specs.LinuxCapabilities{},
			NoNewPrivileges: true,
			Rlimits:         rlimits(s.Limits),
		},
		Mounts: slices.Concat(o.Mounts, mounts(s, user, o.GVisor)),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace},
				{Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace},
				{Type: specs.MountNamespace},
				{Type: specs.CgroupNamespace},
				{Type: specs.NetworkNamespace},
			},
			CgroupsPath:   "/" + o.ID,
			Resources:     resources(s.Limits),
			MaskedPaths:   Masked(s),
			ReadonlyPaths: Readonly(),
		},
	}
	if s.Profile == sandbox.Dev {
		applyDev(spec)
	}
	if s.Networked() {
		shareHostNetwork(spec)
	}
	return spec
}

// applyDev applies the profile dev: it makes the root writable, for a root user with the capabilities that installing
// packages needs.
func applyDev(spec *specs.Spec) {
	spec.Root.Readonly = false
	spec.Process.User = specs.User{}
	capabilities := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID"}
	spec.Process.Capabilities = &specs.LinuxCapabilities{Bounding: capabilities, Effective: capabilities, Permitted: capabilities}
}

// shareHostNetwork lets the container use the network of the host machine.
func shareHostNetwork(spec *specs.Spec) {
	spec.Linux.Namespaces = slices.DeleteFunc(spec.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.NetworkNamespace })
	if _, err := os.Stat("/etc/resolv.conf"); err == nil {
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: "/etc/resolv.conf", Type: "bind", Source: "/etc/resolv.conf", Options: []string{"bind", "ro"}})
	}
}

func mounts(s sandbox.Spec, user specs.User, gVisor bool) []specs.Mount {
	work, shm, tmp := Sizes(s.Limits, gVisor)
	tmpfs := func(target, mode string, size int64, more ...string) specs.Mount {
		options := append([]string{"nosuid", "nodev", "mode=" + mode, fmt.Sprintf("size=%d", size), fmt.Sprintf("nr_inodes=%d", MaxInodes)}, more...)
		return specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs", Options: options}
	}
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		tmpfs("/dev/shm", "1777", shm, "noexec"),
		tmpfs(WorkFolder, "0700", work, fmt.Sprintf("uid=%d", user.UID), fmt.Sprintf("gid=%d", user.GID)),
		{Destination: GuestPath, Type: "bind", Source: s.Guest, Options: []string{"bind", "ro", "nosuid", "nodev"}},
	}
	if gVisor {
		list = append(list, tmpfs("/tmp", "1777", tmp))
	}
	for _, f := range s.Folders {
		access := "ro"
		if f.Writable {
			access = "rw"
		}
		list = append(list, specs.Mount{Destination: cmp.Or(f.Target, f.Source), Type: "bind", Source: f.Source, Options: []string{"rbind", access, "nosuid", "nodev"}})
	}
	return list
}

func rlimits(l sandbox.Limits) []specs.POSIXRlimit {
	list := []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Soft: 1024, Hard: 1024},
		{Type: "RLIMIT_CORE", Soft: 1, Hard: 1}, // with 0 the machine's core dump handler would still run
	}
	if seconds := uint64(CPUSeconds(l)); seconds > 0 {
		list = append(list, specs.POSIXRlimit{Type: "RLIMIT_CPU", Soft: seconds, Hard: seconds + 1})
	}
	return list
}

func resources(l sandbox.Limits) *specs.LinuxResources {
	pids := PIDs(l)
	r := &specs.LinuxResources{
		Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}},
		Pids:    &specs.LinuxPids{Limit: &pids},
	}
	if l.Memory > 0 {
		r.Memory = &specs.LinuxMemory{Limit: &l.Memory}
		if limitsSwap() {
			r.Memory.Swap = &l.Memory // the sum of memory and swap: no swap in addition
		}
	}
	if l.CPUs > 0 {
		period, quota := uint64(100_000), int64(l.CPUs*100_000)
		r.CPU = &specs.LinuxCPU{Period: &period, Quota: &quota}
	}
	return r
}

// limitsSwap reports whether the memory controller also counts swap, which is a kernel
// option.
func limitsSwap() bool {
	for _, file := range []string{"/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes"} {
		if _, err := os.Stat(file); err == nil {
			return true
		}
	}
	return false
}

// Masked returns the paths that are hidden in a container: those of the Docker engine, the
// kernel's symbols and cgroups, whose tree Docker puts into a folder that root may write and
// that has no size. Outside the profile dev, terminals are hidden too, unless the sandbox asks for
// terminals. Under gVisor no paths are hidden: it has no such files, or emulates them.
func Masked(s sandbox.Spec) []string {
	paths := []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kallsyms", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
		"/sys/fs/cgroup",
	}
	if s.Profile != sandbox.Dev && !s.Terminal {
		paths = append(paths, "/dev/pts")
	}
	return paths
}

// Readonly returns the paths that a container cannot write to, the same as the Docker
// engine's.
func Readonly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// Isolation returns the isolation layers of a guest that engine runs under a runtime,
// given by its name and its program: each is a name, a path, or a shim such as
// io.containerd.kata.v2. Only program determines the layers, because any runtime may be
// registered under the name runsc. See [sandbox.Sandbox.Isolation].
func Isolation(engine, name, program string, p sandbox.Profile) string {
	layers := engine + "(" + shortRuntimeName(name) + ")"
	switch shortRuntimeName(program) {
	case "runsc":
		layers = engine + "+gvisor(" + shortRuntimeName(name) + ")"
	case "kata", "kata-runtime":
		layers = engine + "+kata"
	}
	if p != sandbox.Dev {
		layers += "+seccomp" // the guest's own filter
	}
	return layers
}

// DevLacks returns the limits that containers do not hold in the profile dev.
func DevLacks() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{sandbox.LimitDisk: "the root is writable and on the engine's disk"}
}

// GVisorPIDs describes how gVisor enforces a limit of processes.
const GVisorPIDs = "gVisor counts the threads of the host machine that it uses: those of the program that sleep have none"

// GVisorPartly describes the part of that limit that gVisor enforces.
const GVisorPartly = "cgroup, for threads that do not sleep, gVisor's own included"

// CheckGVisor returns an error if a run under gVisor asks for a limit that gVisor does not
// enforce. A default limit is enforced as far as possible.
func CheckGVisor(driver string, s sandbox.Spec) error {
	if s.Limits.PIDs == 0 || s.BestEffort || slices.Contains(s.Defaulted, sandbox.LimitPIDs) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%s cannot enforce a limit of %d processes here: %s", driver, s.Limits.PIDs, GVisorPIDs).
		WithHint("choose another runtime, or accept best effort")
}

// shortRuntimeName returns a runtime's usual name: io.containerd.runc.v2 is runc.
func shortRuntimeName(runtime string) string {
	name := path.Base(runtime)
	if shim, ok := strings.CutPrefix(name, "io.containerd."); ok {
		return strings.TrimSuffix(shim, path.Ext(shim))
	}
	return name
}
