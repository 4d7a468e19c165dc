// Package lockdown starts a program inside Linux isolation and says truthfully
// how far the isolation reaches. A [Host] probes the machine once and starts
// programs from a [Spec]; the binary that uses it calls [Main] first thing when
// its first argument is [InitArg], because a program is started through it:
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

// InitArg is the first argument of a binary that is executed to be the init of
// a sandbox: its main must hand over to [Main].
const InitArg = "__sandbox-init"

// WorkDir is the writable folder inside. It is a file system in memory of the
// size [Limits.Disk], which /tmp and /dev/shm share.
const WorkDir = "/work"

// Nobody is the user and group that a program runs as by default.
const Nobody = 65534

// Rung is one kind of isolation.
type Rung string

// The rungs.
const (
	// Namespaces: own users, mounts, processes, IPC and host name; a root of its
	// own; no capabilities; no process outlives the run.
	Namespaces Rung = "ns"
	// Offline: no way to a network, by a network namespace, or else by seccomp.
	Offline Rung = "net"
	// Landlock: the kernel's file, network and signal rules over what is there.
	Landlock Rung = "landlock"
	// Seccomp: a filter of system calls.
	Seccomp Rung = "seccomp"
	// Cgroup: limits of the whole process tree.
	Cgroup Rung = "cgroup"
)

// Rungs is what a process reached, strongest first.
type Rungs []Rung

// String is such as "ns+net+landlock+seccomp+cgroup", or "none".
func (r Rungs) String() string {
	if len(r) == 0 {
		return "none"
	}
	names := make([]string, len(r))
	for i, rung := range r {
		names[i] = string(rung)
	}
	return strings.Join(names, "+")
}

// Filter names a set of system calls.
type Filter string

// The filters.
const (
	// Standard refuses what is dangerous and allows the rest. It is the default.
	Standard Filter = "standard"
	// Hardened allows what interpreters need and refuses the rest.
	Hardened Filter = "hardened"
)

// Root is what the program sees as "/", always read-only. The zero value is
// empty but for the program's own file.
type Root struct {
	// Source is a folder of the host whose entries are shown.
	Source string
	// Only are the entries of Source that are shown; nil means all but those that
	// a sandbox has of its own (dev, proc, run, sys, tmp, work).
	Only []string
	// Etc adds an /etc with what programs look up: users, host names, the
	// loader's cache, certificates, and the name servers where there is a network.
	Etc bool
}

// System is the programs and libraries of the host, and nothing of its data.
func System() Root {
	return Root{Source: "/", Only: []string{"bin", "lib", "lib32", "lib64", "libx32", "sbin", "usr"}, Etc: true}
}

// Bind shows a file or folder of the host inside, read-only unless Writable.
type Bind struct {
	Source string
	// Target is an absolute path inside; empty means Source.
	Target   string
	Writable bool
}

// Limits bound a run; 0 leaves one out. A limit that cannot be held here is
// refused, see [Spec.BestEffort].
type Limits struct {
	Memory  int64         // bytes of the whole tree, files in memory included
	PIDs    int           // processes and threads of the program at a time
	CPUs    float64       // processors' worth of time
	CPUTime time.Duration // processor time of the whole tree
	Disk    int64         // bytes in [WorkDir], /tmp and /dev/shm; 64 MiB by default
	Inodes  int           // files and folders there; 16,384 by default
	// FileSize is the greatest size of one file, in bytes.
	FileSize int64
	// OpenFiles is the greatest number of open files of one process; 1024 by
	// default.
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

// Held says what holds one limit.
type Held struct {
	Limit string // the name in lower case: memory, pids, cpus, cpu_time, disk, inodes, file_size, open_files
	By    string // such as "cgroup v1" or "rlimit"
	// Gap says how the limit can be got round; empty when it is held whole.
	Gap string
}

// Spec says what to start and what it may see and use.
type Spec struct {
	// Path is the program, as an absolute path inside.
	Path string
	// Args is its argument vector, the name first; nil means Path alone.
	Args []string
	// Env is its whole environment.
	Env []string
	// Dir is its working folder inside; [WorkDir] by default.
	Dir string
	// Stdin, Stdout and Stderr are its first files; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// Files are its files from 3 on. Nothing else that the server has open is
	// open inside.
	Files []*os.File

	Root  Root
	Binds []Bind
	// Network keeps the host's network; otherwise there is none, not even a
	// loopback.
	Network bool
	// Loopback gives a program without the host's network a loopback of its own. It
	// takes namespaces.
	Loopback bool
	// UID and GID are who the program is, inside; [Nobody] by default, and never
	// root. A server that is root gives the same ids outside.
	UID, GID int

	Limits  Limits
	Seccomp Filter
	// Minimum are the rungs without which nothing starts; nil means
	// [Namespaces] and [Seccomp].
	Minimum []Rung
	// Partly are limits, by their names in [Held], that may be held with a gap.
	Partly []string
	// BestEffort starts although a limit cannot be held whole; [Process.Held]
	// says which.
	BestEffort bool
	// Direct makes the program itself PID 1 inside, for a program that is ours:
	// nobody reaps its orphans, and signals that it does not handle do not end it.
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
		s.Minimum = []Rung{Namespaces, Seccomp}
	}
	s.Binds = slices.Clone(s.Binds)
	for i := range s.Binds {
		if s.Binds[i].Target == "" {
			s.Binds[i].Target = s.Binds[i].Source
		}
	}
	return s
}

// validate refuses what cannot be meant. It looks at the text only.
func (s Spec) validate() error {
	if !path.IsAbs(s.Path) {
		return fmt.Errorf("sandbox: program %q: give an absolute path inside the sandbox", s.Path)
	}
	if s.Dir != "" && !path.IsAbs(s.Dir) {
		return fmt.Errorf("sandbox: working folder %q: give an absolute path inside the sandbox", s.Dir)
	}
	for _, text := range slices.Concat(s.Args, s.Env, []string{s.Path, s.Dir}) {
		if strings.ContainsRune(text, 0) {
			return fmt.Errorf("sandbox: %q holds a zero byte", text)
		}
	}
	if s.UID < 1 || s.GID < 1 {
		return fmt.Errorf("sandbox: user %d, group %d: a program inside is never root; leave them out for %d", s.UID, s.GID, Nobody)
	}
	if s.Seccomp != Standard && s.Seccomp != Hardened {
		return fmt.Errorf("sandbox: no seccomp filter %q: there are %q and %q", s.Seccomp, Standard, Hardened)
	}
	for _, b := range s.Binds {
		if !path.IsAbs(b.Source) || !path.IsAbs(b.Target) || path.Clean(b.Target) == "/" {
			return fmt.Errorf("sandbox: bind of %q at %q: give absolute paths, and a target below /", b.Source, b.Target)
		}
		for _, own := range []string{"/proc", "/dev", "/sys"} {
			if target := path.Clean(b.Target); target == own || strings.HasPrefix(target, own+"/") {
				return fmt.Errorf("sandbox: bind at %q: %s is the sandbox's own", b.Target, own)
			}
		}
	}
	l := s.Limits
	if l.Memory < 0 || l.PIDs < 0 || l.CPUs < 0 || l.CPUTime < 0 || l.Disk < 0 || l.Inodes < 0 || l.FileSize < 0 || l.OpenFiles < 0 {
		return fmt.Errorf("sandbox: a limit is negative: %+v; leave it 0 for none", l)
	}
	return nil
}

// Exit is how a program ended.
type Exit struct {
	// Code is the exit code; -1 when a signal ended the program.
	Code int
	// Signal is the number of the signal that ended it, or 0.
	Signal int
	// Exceeded names the limit whose excess ended it, where that is known:
	// memory or cpu_time.
	Exceeded string
}

// Usage is what the whole tree has used.
type Usage struct {
	CPU time.Duration
	// Memory is the peak, in bytes: of the tree where there is a cgroup, or else
	// of its greatest process.
	Memory int64
}

// RungError says that this machine does not reach a rung that was demanded.
type RungError struct {
	Finding Finding
}

func (e *RungError) Error() string {
	return fmt.Sprintf("sandbox: %s is not available here: %s; %s", e.Finding.Rung, e.Finding.Reason, e.Finding.Fix)
}

// LimitError names the limits that cannot be held whole.
type LimitError struct {
	Limits []Held
}

func (e *LimitError) Error() string {
	parts := make([]string, len(e.Limits))
	for i, h := range e.Limits {
		parts[i] = h.Limit + " (" + h.Gap + ")"
	}
	return "sandbox: limits that cannot be held here: " + strings.Join(parts, ", ") + "; leave them out, ask for best effort, or give the server a cgroup of its own"
}

// Leftover is a cgroup or a folder of a sandbox whose Toolroom no longer runs.
type Leftover struct {
	Path   string
	Cgroup bool
}
