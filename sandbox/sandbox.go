// Package sandbox defines the contract of sandbox drivers. A [Driver] starts a guest
// under a profile with limits, returns the byte stream of its bridge, and reports
// which limits are actually enforced. Drivers know nothing of tools; the bridge,
// time-outs, output limits and receipts are the same for all drivers.
//
// To add a driver, implement [Driver] and run the test suite in package sandboxtest
// against it.
package sandbox

import (
	"context"
	"io"
	"time"
)

// Driver starts sandboxes of one technology. Its methods must be safe for concurrent
// use.
type Driver interface {
	// Name returns the driver's id in config, commands and results: process, docker …
	Name() string
	// Probe reports whether sandboxes can be started here, and which limits they would
	// enforce. It may really start a sandbox and take a while, so callers cache the
	// result.
	Probe(ctx context.Context) Probe
	// Start starts a guest, which will send its hello on the sandbox's stream. ctx bounds
	// the start only; if it is done first, nothing is left behind. An error is a
	// [*toolroom.Error] with code sandbox_unavailable or limit_not_enforceable that
	// names the cause and the fix.
	Start(ctx context.Context, s Spec) (Sandbox, error)
}

// Sandbox is a started guest.
type Sandbox interface {
	// Stream returns the guest's end of the bridge. Closing it need not end the guest;
	// Kill does.
	Stream() io.ReadWriteCloser
	// Wait waits until the guest has ended, or ctx is done.
	Wait(ctx context.Context) (Exit, error)
	// Kill kills the guest and all processes it started. Before it returns, it removes
	// every trace of the sandbox: processes, mounts, cgroups, containers, files. It is
	// idempotent, and must be called for every sandbox.
	Kill(ctx context.Context) error
	// Usage returns the sandbox's resource usage so far, measured from outside.
	Usage() Usage
	// Isolation returns the isolation layers of this guest, strongest last, joined by +:
	// ns+landlock+seccomp, docker(runc)+seccomp, docker+gvisor(runsc).
	Isolation() string
	// Held returns how this sandbox enforces each limit ("cgroup v1", "rlimit"). A limit
	// that is missing is not enforced.
	Held() map[Limit]string
}

// Spec describes a sandbox to start.
type Spec struct {
	// Run is the id of the run. Drivers label everything they create with it, so that
	// leftovers of a crash can be found.
	Run     string
	Profile Profile
	Limits  Limits
	// Guest is the path of the static guest binary on this machine. The driver makes it
	// available in the sandbox, read-only, and starts it with Args.
	Guest string
	Args  []string
	// Env is the guest's environment, KEY=VALUE; it inherits nothing else.
	Env []string
	// Image is the image or root file system, if the driver has a choice of them; empty
	// means the configured default.
	Image string
	// Runtime selects a runtime of the driver, for example runsc of docker.
	Runtime string
	// Layer is a folder of packages on this machine, which the sandbox shows read-only as
	// [LayerPath]; empty means none.
	Layer string
	// Folders are folders and files of this machine that the sandbox shows. With Folders
	// the guest has the server's rights to their files, and no others.
	Folders []Folder
	// Terminal lets programs open pseudo-terminals, which containers have otherwise only in the
	// profile dev.
	Terminal bool
	// Egress lists the hosts that may be reached, in the syntax of egress.Guard.Within.
	// If it is not empty, the sandbox has a loopback and no other network, in every
	// profile: the guest sends connections over its stream to the server, which decides
	// about them and makes them. If it is empty, the profile decides.
	Egress []string
	// Defaulted are the limits whose values are defaults and not requested by the caller. A
	// driver that can enforce such a limit only partly starts the sandbox anyway, and
	// says in Held which part it enforces.
	Defaulted []Limit
	// BestEffort accepts a sandbox that cannot enforce all requested limits.
	BestEffort bool
}

// Folder is a folder or file of this machine that a sandbox shows.
type Folder struct {
	// Source is its absolute path, and Target that inside; empty means Source.
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	// Writable lets the guest change it; disk limits do not count what it writes there.
	Writable bool `json:"writable,omitempty"`
}

// LayerPath is the path of [Spec.Layer] in a sandbox.
const LayerPath = "/run/layer"

// Networked reports whether the sandbox has a network.
func (s Spec) Networked() bool { return s.Profile == Dev && len(s.Egress) == 0 }

// Profile is a degree of isolation.
type Profile string

// The profiles.
const (
	// Dev has a network, unless [Spec.Egress] replaces it, and a writable root.
	Dev Profile = "dev"
	// Standard has no network, a read-only root with an in-memory work folder, uid 65534,
	// no capabilities and no new privileges. It is the default.
	Standard Profile = "standard"
	// Hardened is Standard with Toolroom's own seccomp allow-list; WebAssembly has no
	// clock, and no host functions except the bridge.
	Hardened Profile = "hardened"
)

// Limit names one limit.
type Limit string

// The limits that a driver may enforce. The bridge enforces the limits of output and
// tool calls for all drivers.
const (
	LimitWall    Limit = "wall"
	LimitCPU     Limit = "cpu"
	LimitMemory  Limit = "memory"
	LimitPIDs    Limit = "pids"
	LimitDisk    Limit = "disk"
	LimitNetwork Limit = "network" // there is none, if the profile says so
	LimitEgress  Limit = "egress"  // only the hosts of [Spec.Egress] can be reached
)

// OverStream describes how drivers enforce [LimitEgress] whose sandboxes have a loopback
// and no other network.
const OverStream = "no network but over the bridge, where the server judges each connection"

// Limits are the limits of one sandbox. Zero means the configured default, which is
// filled in before the driver sees it; a zero in a driver means no limit.
type Limits struct {
	Wall time.Duration `json:"wall,omitempty"`
	// CPU is the total CPU time; CPUs is the number of processors used at once.
	CPU    time.Duration `json:"cpu,omitempty"`
	CPUs   float64       `json:"cpus,omitempty"`
	Memory int64         `json:"memory,omitempty"` // bytes
	PIDs   int           `json:"pids,omitempty"`
	Disk   int64         `json:"disk,omitempty"` // bytes of the writable folders
}

// Asked returns the names of the limits that are set.
func (l Limits) Asked() []Limit {
	var asked []Limit
	ask := func(limit Limit, is bool) {
		if is {
			asked = append(asked, limit)
		}
	}
	ask(LimitWall, l.Wall > 0)
	ask(LimitCPU, l.CPU > 0 || l.CPUs > 0)
	ask(LimitMemory, l.Memory > 0)
	ask(LimitPIDs, l.PIDs > 0)
	ask(LimitDisk, l.Disk > 0)
	return asked
}

// Exit describes how a guest ended.
type Exit struct {
	Code   int
	Signal string // name of the signal that ended it, empty if none did
	// OOM means that the memory limit ended the guest.
	OOM bool
	// OutOfCPU means that the limit of CPU time ended it.
	OutOfCPU bool
	// Stderr is the end of the guest's stderr, for diagnosis.
	Stderr string
}

// Usage is measured from outside; zero means unknown.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64 // bytes
}

// State is the state of a driver on this machine.
type State string

// The states.
const (
	Available    State = "available"
	Unsupported  State = "unsupported"
	Inconclusive State = "inconclusive" // unknown, for example because a daemon does not answer
)

// Probe is the result of probing a driver on this machine.
type Probe struct {
	State State `json:"state"`
	// Reason says why the driver is not available, and Fix what to do about it.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
	// Version is the version of the driver's engine.
	Version string `json:"version,omitempty"`
	// Isolation is the expected result of [Sandbox.Isolation].
	Isolation string `json:"isolation,omitempty"`
	// Runtimes maps the runtimes that a run may choose with [Spec.Runtime] to their
	// isolation. Nil means that a run may not choose; an empty map means that the
	// runtimes are unknown.
	Runtimes map[string]string `json:"runtimes,omitzero"`
	// Holds says how each limit would be enforced here; Lacks says why a limit would not
	// be.
	Holds map[Limit]string `json:"holds,omitempty"`
	Lacks map[Limit]string `json:"lacks,omitempty"`
	// Partly says which part of a limit in Lacks is still enforced.
	Partly map[Limit]string `json:"partly,omitempty"`
	// DevLacks says why a limit in Holds is not enforced in the profile dev.
	DevLacks map[Limit]string `json:"dev_lacks,omitempty"`
	// Images means that a run may choose an image with [Spec.Image].
	Images bool `json:"images,omitempty"`
	// Layers means that sandboxes can show a folder of packages, [Spec.Layer].
	Layers bool `json:"layers,omitempty"`
	// Folders means that sandboxes can show folders of this machine, [Spec.Folders].
	Folders bool `json:"folders,omitempty"`
	// Languages are the languages that the driver's default image can run, if known.
	Languages []string `json:"languages,omitempty"`
}
