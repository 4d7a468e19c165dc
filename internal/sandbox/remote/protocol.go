package remote

import (
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// The requests that a runner serves. Every request except PathHealth must be signed, unless
// it comes over the Unix socket of a driver program. Only driver programs serve PathSettings
// and PathClean; each of their drivers has a path of its own before these. See
// docs/runner.md.
//
//	GET    /healthz                     200 while the runner serves
//	PUT    /v1/settings                 204; the body is the driver's settings in JSON
//	POST   /v1/clean?dry=BOOL           Cleaned
//	GET    /v1/probe                    Report
//	POST   /v1/sandboxes        Order   Started; repeating an order makes no second sandbox
//	GET    /v1/sandboxes/ID/stream      101 Switching Protocols: the bridge's bytes
//	GET    /v1/sandboxes/ID/exit        End, or 204 while the guest still runs
//	GET    /v1/sandboxes/ID/usage       End
//	DELETE /v1/sandboxes/ID             End, once the sandbox has been removed
const (
	PathHealth    = "/healthz"
	PathProbe     = "/v1/probe"
	PathSandboxes = "/v1/sandboxes"
	PathSettings  = "/v1/settings"
	PathClean     = "/v1/clean"
)

// Protocol is the protocol to which a connection is upgraded: the bridge's byte stream, in
// both directions, until one side closes it.
const Protocol = "toolroom-bridge/1"

// MaxBody is the maximum length of the body of a request or an answer.
const MaxBody = 1 << 20

// Report is the probe of a runner's driver.
type Report struct {
	Driver string        `json:"driver"`
	Probe  sandbox.Probe `json:"probe"`
}

// Order requests a sandbox. The client chooses ID: 32 random hex digits.
type Order struct {
	ID         string          `json:"id"`
	Run        string          `json:"run,omitempty"`
	Profile    sandbox.Profile `json:"profile,omitempty"`
	Limits     sandbox.Limits  `json:"limits"`
	Env        []string        `json:"env,omitempty"`
	Image      string          `json:"image,omitempty"`
	Runtime    string          `json:"runtime,omitempty"`
	Egress     []string        `json:"egress,omitempty"`
	Defaulted  []sandbox.Limit `json:"unasked,omitempty"`
	BestEffort bool            `json:"best_effort,omitempty"`
	// Guest, Args and Layer are paths and arguments on this machine. A runner on another
	// machine has a guest of its own and refuses them.
	Guest string   `json:"guest,omitempty"`
	Args  []string `json:"args,omitempty"`
	Layer string   `json:"layer,omitempty"`
	// Folders are those of this machine that the sandbox shows.
	Folders []sandbox.Folder `json:"folders,omitempty"`
}

// newOrder returns the order of a sandbox. A runner on another machine has its own guest.
func newOrder(s sandbox.Spec, local bool) Order {
	o := Order{
		ID: newID(), Run: s.Run, Profile: s.Profile, Limits: s.Limits, Env: s.Env, Image: s.Image,
		Runtime: s.Runtime, Egress: s.Egress, Defaulted: s.Defaulted, BestEffort: s.BestEffort,
	}
	if local {
		o.Guest, o.Args, o.Layer, o.Folders = s.Guest, s.Args, s.Layer, s.Folders
	}
	return o
}

// Spec returns the ordered sandbox.
func (o Order) Spec() sandbox.Spec {
	return sandbox.Spec{
		Run: o.Run, Profile: o.Profile, Limits: o.Limits, Env: o.Env, Image: o.Image,
		Runtime: o.Runtime, Egress: o.Egress, Defaulted: o.Defaulted, BestEffort: o.BestEffort,
		Guest: o.Guest, Args: o.Args, Layer: o.Layer, Folders: o.Folders,
	}
}

// Cleaned lists what a driver has found of processes that have ended. Error says why its
// engine could not be asked.
type Cleaned struct {
	Leftovers []sandbox.Leftover `json:"leftovers"`
	Error     string             `json:"error,omitempty"`
}

// Started describes a sandbox that waits for its stream.
type Started struct {
	Isolation string                   `json:"isolation"`
	Held      map[sandbox.Limit]string `json:"held"`
}

// End describes how a sandbox ended, if it has, and its usage.
type End struct {
	Code       int           `json:"code"`
	Signal     string        `json:"signal,omitempty"`
	OOM        bool          `json:"oom,omitempty"`
	OutOfCPU   bool          `json:"out_of_cpu,omitempty"`
	Stderr     string        `json:"stderr,omitempty"`
	CPU        time.Duration `json:"cpu,omitempty"`         // nanoseconds
	PeakMemory int64         `json:"peak_memory,omitempty"` // bytes
}

// Exit returns how the sandbox ended.
func (e End) Exit() sandbox.Exit {
	return sandbox.Exit{Code: e.Code, Signal: e.Signal, OOM: e.OOM, OutOfCPU: e.OutOfCPU, Stderr: e.Stderr}
}

// Usage returns the sandbox's usage.
func (e End) Usage() sandbox.Usage {
	return sandbox.Usage{CPU: e.CPU, PeakMemory: e.PeakMemory}
}

// Problem is the body of an error answer. Reason is set if the signature was refused;
// SkewMS is then how far the client's clock is ahead. CLIHint is the error's hint for people
// at a command line.
type Problem struct {
	Error   *toolroom.Error `json:"error"`
	CLIHint string          `json:"cli_hint,omitempty"`
	Reason  Reason          `json:"reason,omitempty"`
	SkewMS  int64           `json:"skew_ms,omitempty"`
}

// Full returns the error with all of its hints.
func (p Problem) Full() *toolroom.Error {
	e := *p.Error
	e.CLIHint = p.CLIHint
	return &e
}
