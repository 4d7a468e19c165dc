// Package lockdown starts programs in Linux isolation and reports which isolation
// layers and limits are actually enforced. A [HostMachine] probes the machine once
// and starts programs from a [Spec]. A program is started through an init process:
// a binary that uses this package must call [Main] first if its first argument is
// [InitArg].
//
//	server ── clone into namespaces ──▶ init (this binary, PID 1 inside)
//	                                     │ builds the root, pivots
//	                                     └─ fork ─▶ drops rights, exec ─▶ program
//
// Init dies with the server, and everything inside dies with init.
package lockdown

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// InitArg is the first argument of a binary that runs as the init of a sandbox:
// its main must call [Main].
const InitArg = "__sandbox-init"

// WorkDir is the writable folder inside. It is on an in-memory file system of
// [Limits.Disk] bytes, which /tmp and /dev/shm share.
const WorkDir = "/work"

// Nobody is the default user and group of a program.
const Nobody = 65534

// Layer is an isolation layer.
type Layer string

// The isolation layers.
const (
	// Namespaces isolates users, mounts, processes, IPC and host name. The program has
	// its own root and no capabilities, and no process outlives the run.
	Namespaces Layer = "ns"
	// Offline means that no network is reachable, because of a network namespace or a
	// seccomp filter.
	Offline Layer = "net"
	// Landlock is the kernel's access control for files, network and signals.
	Landlock Layer = "landlock"
	// Seccomp is a filter of system calls.
	Seccomp Layer = "seccomp"
	// Cgroup limits the whole process tree.
	Cgroup Layer = "cgroup"
)

// Layers are the isolation layers of a process, strongest first.
type Layers []Layer

// String returns, for example, "ns+net+landlock+seccomp+cgroup", or "none".
func (r Layers) String() string {
	if len(r) == 0 {
		return "none"
	}
	names := make([]string, len(r))
	for i, layer := range r {
		names[i] = string(layer)
	}
	return strings.Join(names, "+")
}

// Filter names a system call filter.
type Filter string

// The filters.
const (
	// Standard refuses dangerous system calls and allows the rest. It is the default.
	Standard Filter = "standard"
	// Hardened allows the system calls that interpreters need and refuses the rest.
	Hardened Filter = "hardened"
)

// Root configures the program's "/", which is always read-only. The zero value
// shows nothing but the program's own file.
type Root struct {
	// Source is a folder of the host machine whose entries are shown.
	Source string
	// Only are the entries of Source that are shown; nil means all except those of
	// which a sandbox has its own (dev, proc, run, sys, tmp, work).
	Only []string
	// Etc adds an /etc with the files that programs look up: users, host names, the
	// loader's cache, certificates and, if there is a network, the name servers.
	Etc bool
}

// System returns a root with the host machine's programs and libraries, and none
// of its data.
func System() Root {
	return Root{Source: "/", Only: []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}, Etc: true}
}

// Bind shows a file or folder of the host machine inside, read-only unless
// Writable.
type Bind struct {
	Source string
	// Target is an absolute path inside; empty means Source.
	Target   string
	Writable bool
}

// Limits limits the resources of a run; 0 means no limit. Start refuses a limit
// that cannot be enforced, see [Spec.BestEffort].
type Limits struct {
	Memory  int64         // bytes of the whole tree, including files in memory
	PIDs    int           // processes and threads of the program at a time
	CPUs    float64       // number of processors
	CPUTime time.Duration // processor time of the whole tree
	Disk    int64         // bytes in [WorkDir], /tmp and /dev/shm; 64 MiB by default
	Inodes  int           // files and folders there; 16,384 by default
	// OpenFiles is the maximum number of open files of one process; 1024 by default.
	OpenFiles int
}

const (
	defaultDisk      = 64 << 20
	defaultInodes    = 16384
	defaultOpenFiles = 1024
)

func (l Limits) withDefaults() Limits {
	if l.Disk == 0 {
		l.Disk = defaultDisk
	}
	if l.Inodes == 0 {
		l.Inodes = defaultInodes
	}
	if l.OpenFiles == 0 {
		l.OpenFiles = defaultOpenFiles
	}
	return l
}

// Held describes how one limit is enforced.
type Held struct {
	Limit string // the limit's name: memory, pids, cpus, cpu_time, disk, inodes, open_files
	By    string // the mechanism, such as "cgroup v1" or "rlimit"
	// Gap says how the limit can be circumvented; it is empty if the limit is fully
	// enforced.
	Gap string
}

// Spec describes a program to start, and what it may see and use.
type Spec struct {
	// Path is the program's absolute path inside.
	Path string
	// Args is the argument vector, starting with the name; nil means Path alone.
	Args []string
	// Env is the whole environment.
	Env []string
	// Dir is the working folder inside; [WorkDir] by default.
	Dir string
	// Stdin, Stdout and Stderr are the standard files; nil means /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Terminal makes Stdin, which must be a terminal, the one that controls the program.
	Terminal bool
	// Files are the program's files from 3 on. No other file of the server is open
	// inside.
	Files []*os.File

	Root  Root
	Binds []Bind
	// Network keeps the host machine's network. Without it there is no network, not
	// even a loopback interface.
	Network bool
	// Loopback adds a loopback interface to a program without Network. It requires
	// namespaces.
	Loopback bool
	// Listen are TCP ports of that loopback on which the server listens, from before the
	// program starts; see [Process.Listeners].
	Listen []uint16
	// UID and GID are the program's user and group inside; [Nobody] by default, and
	// never root. If the server is root, they are the same ids outside.
	UID, GID int
	// AsServer maps UID and GID to the server's own user and group, also if the server is
	// root, so that the program can write to Binds as the server can. It requires
	// namespaces, in which the program has no capabilities.
	AsServer bool

	Limits  Limits
	Seccomp Filter
	// Minimum are the required layers: if one is missing, nothing starts. Nil means
	// [Namespaces] and [Seccomp].
	Minimum []Layer
	// Partly names limits, as in [Held], that may be enforced with a gap.
	Partly []string
	// BestEffort starts the program even if a limit cannot be fully enforced;
	// [Process.Held] says which.
	BestEffort bool
	// Direct makes the program itself PID 1 inside. It is for programs of our own: its
	// orphans are not reaped, and a signal that it does not handle does not end it.
	Direct bool
}

func (s Spec) withDefaults() Spec {
	s.Limits = s.Limits.withDefaults()
	if len(s.Args) == 0 {
		s.Args = []string{s.Path}
	}
	if s.UID == 0 {
		s.UID = Nobody
	}
	if s.GID == 0 {
		s.GID = Nobody
	}
	if s.Seccomp == "" {
		s.Seccomp = Standard
	}
	if s.Minimum == nil {
		s.Minimum = []Layer{Namespaces, Seccomp}
	}
	s.Binds = slices.Clone(s.Binds)
	for i := range s.Binds {
		if s.Binds[i].Target == "" {
			s.Binds[i].Target = s.Binds[i].Source
		}
	}
	return s
}

// validate rejects invalid specs. It checks the text only.
func (s Spec) validate() error {
	if !path.IsAbs(s.Path) {
		return fmt.Errorf("sandbox: program %q: want an absolute path inside the sandbox", s.Path)
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return fmt.Errorf("sandbox: working folder %q: want an absolute path inside the sandbox", s.Dir)
	}
	for _, text := range slices.Concat(s.Args, s.Env, []string{s.Path, s.Dir}) {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("sandbox: %q contains a zero byte", text)
		}
	}
	if s.UID < 1 || s.GID < 1 {
		return fmt.Errorf("sandbox: user %d, group %d: a program inside is never root; leave them out to use %d", s.UID, s.GID, Nobody)
	}
	if s.Seccomp != Standard && s.Seccomp != Hardened {
		return fmt.Errorf("sandbox: no seccomp filter %q: there are %q and %q", s.Seccomp, Standard, Hardened)
	}
	for _, b := range s.Binds {
		if !path.IsAbs(b.Source) || !path.IsAbs(b.Target) || path.Clean(b.Target) == "/" {
			return fmt.Errorf("sandbox: bind of %q at %q: want absolute paths, and a target below /", b.Source, b.Target)
		}
		for _, own := range []string{"/proc", "/dev", "/sys"} {
			if target := path.Clean(b.Target); target == own || strings.HasPrefix(target, own+"/") {
				return fmt.Errorf("sandbox: bind at %q: %s is reserved for the sandbox", b.Target, own)
			}
		}
	}
	l := s.Limits
	if l.Memory < 0 || l.PIDs < 0 || l.CPUs < 0 || l.CPUTime < 0 || l.Disk < 0 || l.Inodes < 0 || l.OpenFiles < 0 {
		return fmt.Errorf("sandbox: a limit is negative: %+v; use 0 for no limit", l)
	}
	return nil
}

// Exit describes how a program ended.
type Exit struct {
	// Code is the exit code, or -1 if a signal ended the program.
	Code int
	// Signal is the number of the signal that ended it, or 0.
	Signal int
	// Exceeded names the exceeded limit that ended the program, if known: memory or
	// cpu_time.
	Exceeded string
}

// Usage is the resource usage of the whole tree.
type Usage struct {
	CPU time.Duration
	// Memory is the peak in bytes: of the tree if there is a cgroup, or else of the
	// largest process.
	Memory int64
}

// LayerError reports that this machine lacks a required isolation layer.
type LayerError struct {
	Finding Finding
}

func (e *LayerError) Error() string {
	return fmt.Sprintf("sandbox: %s is not available here: %s; %s", e.Finding.Layer, e.Finding.Reason, e.Finding.Fix)
}

// LimitError reports limits that cannot be fully enforced.
type LimitError struct {
	Limits []Held
}

func (e *LimitError) Error() string {
	parts := make([]string, len(e.Limits))
	for i, h := range e.Limits {
		parts[i] = h.Limit + " (" + h.Gap + ")"
	}
	return "sandbox: limits that cannot be enforced here: " + strings.Join(parts, ", ") + "; remove them, ask for best effort, or run the server in a cgroup of its own"
}

// Leftover is a cgroup or folder of a sandbox whose Toolroom process has ended.
type Leftover struct {
	Path   string
	Cgroup bool
}

// The launcher starts a program inside the namespaces of a network jail, which package
// netjail makes: it mounts, hands the proxy's socket to the server, gives up its rights and
// executes the program. The small binary of guests, which starts sooner, can be one.

// JailArg is the first argument of a binary that runs as the launcher: its main must call
// [JailMain].
const JailArg = "__netjail"

// JailOrder is what the launcher reads from its socket before it begins.
type JailOrder struct {
	HostNetwork, Guarded bool
	Binds                []Bind
}

// JailMessage is what the launcher sends on its socket, as JSON. With Proxy it carries the
// listening socket. The end of the stream means that the program has been executed.
type JailMessage struct {
	Proxy bool   `json:"proxy,omitempty"`
	Error string `json:"error,omitempty"`
	// Missing means that the program does not exist.
	Missing bool `json:"missing,omitempty"`
}

// Finding is the probe's result for one layer.
type Finding struct {
	Layer     Layer
	Available bool
	// Detail says how the layer is enforced, such as "Landlock ABI 7".
	Detail string
	// Reason says why the layer is missing, and Fix what to do about it.
	Reason, Fix string
}

// Report holds one finding per layer, strongest first.
type Report []Finding

// Find returns the finding of a layer.
func (r Report) Find(layer Layer) Finding {
	for _, f := range r {
		if f.Layer == layer {
			return f
		}
	}
	return Finding{Layer: layer, Reason: "there is no such isolation layer", Fix: "use one of ns, net, landlock, seccomp, cgroup"}
}
