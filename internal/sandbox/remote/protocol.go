package remote

import (
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/remote/signed"
	"github.com/toolroom/toolroom/sandbox"
)

// What a runner serves. Every request but that of PathHealth is signed.
//
//	GET    /healthz                     200 when it serves
//	GET    /v1/probe                    Report
//	POST   /v1/sandboxes        Order   Started; the same order twice is one sandbox
//	GET    /v1/sandboxes/ID/stream      101 Switching Protocols: the bridge's bytes
//	GET    /v1/sandboxes/ID/exit        End, or 204 while it runs on
//	GET    /v1/sandboxes/ID/usage       End
//	DELETE /v1/sandboxes/ID             End, when nothing of it is left
const (
	PathHealth    = "/healthz"
	PathProbe     = "/v1/probe"
	PathSandboxes = "/v1/sandboxes"
)

// Protocol is what a connection is upgraded to: the bytes of a bridge, both
// ways, until one side closes it.
const Protocol = "toolroom-bridge/1"

// MaxBody is the most bytes that a request or an answer has.
const MaxBody = 1 << 20

// Report is what a runner's driver found out.
type Report struct {
	Driver string        `json:"driver"`
	Probe  sandbox.Probe `json:"probe"`
}

// Order asks for a sandbox. ID is chosen by the client, 32 hex digits at random.
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

// Spec is what is ordered. The guest is the runner's own.
func (o Order) Spec() sandbox.Spec {
	return sandbox.Spec{
		Run: o.Run, Profile: o.Profile, Limits: o.Limits, Env: o.Env, Image: o.Image,
		Runtime: o.Runtime, Egress: o.Egress, Unasked: o.Unasked, BestEffort: o.BestEffort,
	}
}

// Started is a sandbox that waits for its stream.
type Started struct {
	Isolation string                   `json:"isolation"`
	Held      map[sandbox.Limit]string `json:"held"`
}

// End is how a sandbox ended, as far as it has, and what it used.
type End struct {
	Code       int           `json:"code"`
	Signal     string        `json:"signal,omitempty"`
	OOM        bool          `json:"oom,omitempty"`
	OutOfCPU   bool          `json:"out_of_cpu,omitempty"`
	Stderr     string        `json:"stderr,omitempty"`
	CPU        time.Duration `json:"cpu,omitempty"`         // nanoseconds
	PeakMemory int64         `json:"peak_memory,omitempty"` // bytes
}

// Exit is the part of e that tells how it ended.
func (e End) Exit() sandbox.Exit {
	return sandbox.Exit{Code: e.Code, Signal: e.Signal, OOM: e.OOM, OutOfCPU: e.OutOfCPU, Stderr: e.Stderr}
}

// Usage is the part of e that tells what was used.
func (e End) Usage() sandbox.Usage {
	return sandbox.Usage{CPU: e.CPU, PeakMemory: e.PeakMemory}
}

// Problem is the body of an answer from 400 on. Reason is there when the
// signature is the problem; SkewMS is then how far the client is ahead.
type Problem struct {
	Error  *toolroom.Error `json:"error"`
	Reason signed.Reason   `json:"reason,omitempty"`
	SkewMS int64           `json:"skew_ms,omitempty"`
}
