// Package sandbox is the contract of a place where code runs. A [Driver] starts
// a guest under a profile with limits, hands back the byte stream of its bridge
// and says truthfully what it holds. It knows nothing of tools; bridge,
// time-out, output caps and receipts are shared by all drivers.
//
// To add a driver, implement [Driver] and run the suite in package sandboxtest
// against it.
package sandbox

import (
	"context"
	"io"
	"time"
)

// Driver starts sandboxes of one kind. Its methods may be called concurrently.
type Driver interface {
	// Name is the driver's id in config, commands and results: process, docker …
	Name() string
	// Probe says whether sandboxes can be started here, and what they would
	// hold. It really tries, so it may take a while; callers keep the answer.
	Probe(ctx context.Context) Probe
	// Start starts a guest that will say hello on the sandbox's stream. ctx
	// bounds the start alone; when it ends first, nothing is left behind. An
	// error is a [*toolroom.Error] with code sandbox_unavailable or
	// limit_not_enforceable that names the cause and the fix.
	Start(ctx context.Context, s Spec) (Sandbox, error)
}

// Sandbox is a started guest.
type Sandbox interface {
	// Stream is the guest's side of the bridge. Closing it does not end the
	// guest by contract: Kill does.
	Stream() io.ReadWriteCloser
	// Wait returns when the guest has ended, or ctx has.
	Wait(ctx context.Context) (Exit, error)
	// Kill ends the guest and all that it started, and removes every trace of
	// the sandbox (processes, mounts, cgroups, containers, files) before it
	// returns. It is idempotent, and must be called for every sandbox.
	Kill(ctx context.Context) error
	// Usage is what the sandbox has used so far, measured from outside.
	Usage() Usage
	// Isolation names the walls that stand around this guest, strongest last,
	// joined by +: ns+landlock+seccomp, docker(runc)+seccomp, docker+gvisor(runsc).
	Isolation() string
	// Held says for each limit how this sandbox holds it ("cgroup v1",
	// "rlimit"). What is not in it is not held.
	Held() map[Limit]string
}

// Spec says what to start.
type Spec struct {
	// Run names the run; drivers mark all that they create with it, so that
	// leftovers of a crash can be found.
	Run     string
	Profile Profile
	Limits  Limits
	// Guest is the path of the static guest binary on this machine. A driver
	// puts it into the sandbox, read-only, and starts it with Args.
	Guest string
	Args  []string
	// Env is the guest's environment, KEY=VALUE; nothing else is inherited.
	Env []string
	// Image is the root file system or image where the driver has a choice;
	// empty is the configured default.
	Image string
	// Runtime picks a runtime below the driver, for example runsc under docker.
	Runtime string
	// Egress lists the hosts that may be reached, as egress.Guard.Within reads
	// them. With it the sandbox has a loopback and no network besides, whatever the
	// profile: the guest carries connections over its stream to the host, which
	// judges and makes them. Empty means what the profile says.
	Egress []string
	// Unasked are limits whose values are defaults that nobody asked for. A driver
	// that cannot hold one of them whole, but in part, starts all the same, and
	// says in Held which part.
	Unasked []Limit
	// BestEffort accepts a sandbox that cannot hold every limit asked for.
	BestEffort bool
}

// Networked tells whether the sandbox has a network of its own.
func (s Spec) Networked() bool { return s.Profile == Dev && len(s.Egress) == 0 }

// Profile is how tight a sandbox is.
type Profile string

// The profiles.
const (
	// Dev has a network, unless [Spec.Egress] takes it away, and a writable root.
	Dev Profile = "dev"
	// Standard has no network, a read-only root with a work folder in memory,
	// uid 65534, no capabilities and no new privileges. It is the default.
	Standard Profile = "standard"
	// Hardened is Standard with the project's own seccomp allow-list; for wasm
	// no clock and no host functions but the bridge.
	Hardened Profile = "hardened"
)

// Limit names one limit.
type Limit string

// The limits that a driver may hold. Output and tool calls are held by the
// bridge, whatever the driver.
const (
	LimitWall    Limit = "wall"
	LimitCPU     Limit = "cpu"
	LimitMemory  Limit = "memory"
	LimitPIDs    Limit = "pids"
	LimitDisk    Limit = "disk"
	LimitNetwork Limit = "network" // closed where the profile says so
	LimitEgress  Limit = "egress"  // what [Spec.Egress] lists is reached, and nothing else
)

// OverStream is how a driver holds [LimitEgress] whose sandboxes have a loopback
// and no other network.
const OverStream = "no network but over the bridge, where the server judges each connection"

// Limits of one sandbox. Zero means the configured default, which is filled in
// before a driver sees it; a zero that is left means no limit was asked for.
type Limits struct {
	Wall time.Duration `json:"wall,omitempty"`
	// CPU is CPU time in all; CPUs is how many processors may be used at once.
	CPU    time.Duration `json:"cpu,omitempty"`
	CPUs   float64       `json:"cpus,omitempty"`
	Memory int64         `json:"memory,omitempty"` // bytes
	PIDs   int           `json:"pids,omitempty"`
	Disk   int64         `json:"disk,omitempty"` // bytes of the writable folders
}

// Asked lists the limits that l asks a driver to hold.
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

// Exit is how a guest ended.
type Exit struct {
	Code   int
	Signal string // name of the signal that ended it, empty if none did
	// OOM says that the memory limit ended it.
	OOM bool
	// OutOfCPU says that the limit of CPU time did.
	OutOfCPU bool
	// Stderr is the end of what the guest wrote to stderr, for diagnosis.
	Stderr string
}

// Usage is measured from outside; zero is not known.
type Usage struct {
	CPU        time.Duration
	PeakMemory int64 // bytes
}

// State of a driver on this machine.
type State string

// The states.
const (
	Available    State = "available"
	Unsupported  State = "unsupported"
	Inconclusive State = "inconclusive" // could not be found out, for example a daemon that does not answer
)

// Probe is what a driver found out about this machine.
type Probe struct {
	State State `json:"state"`
	// Reason says why it is not available, and Fix what to do about it.
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
	// Version of what lies behind the driver.
	Version string `json:"version,omitempty"`
	// Isolation is what [Sandbox.Isolation] would say.
	Isolation string `json:"isolation,omitempty"`
	// Runtimes says the same of each runtime that a run may choose by
	// [Spec.Runtime]; nil is that a run may choose none, and an empty map that it is
	// not known which there are.
	Runtimes map[string]string `json:"runtimes,omitempty"`
	// Holds says for each limit how it would be held here; Lacks why one would
	// not be.
	Holds map[Limit]string `json:"holds,omitempty"`
	Lacks map[Limit]string `json:"lacks,omitempty"`
	// Partly says of limits in Lacks which part of them is held all the same.
	Partly map[Limit]string `json:"partly,omitempty"`
	// Images is that a run may have an image of its own, as [Spec.Image].
	Images bool `json:"images,omitempty"`
	// Languages that the driver's default image can run, where known.
	Languages []string `json:"languages,omitempty"`
}
