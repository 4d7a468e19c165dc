package remote

import (
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote/signed"
	"github.com/toolroom/toolroom/sandbox"
)

// The requests that a runner serves. Every request except PathHealth must be signed.
//
//	GET    /healthz                     200 while the runner serves
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
	Unasked    []sandbox.Limit `json:"unasked,omitempty"`
	BestEffort bool            `json:"best_effort,omitempty"`
}

// Spec returns the ordered sandbox, without its guest: that is the runner's own.
func (o Order) Spec() sandbox.Spec {
	return sandbox.Spec{
		Run: o.Run, Profile: o.Profile, Limits: o.Limits, Env: o.Env, Image: o.Image,
		Runtime: o.Runtime, Egress: o.Egress, Unasked: o.Unasked, BestEffort: o.BestEffort,
	}
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
// SkewMS is then how far the client's clock is ahead.
type Problem struct {
	Error  *toolroom.Error `json:"error"`
	Reason signed.Reason   `json:"reason,omitempty"`
	SkewMS int64           `json:"skew_ms,omitempty"`
}
