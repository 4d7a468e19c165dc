//go:build !linux

package pynative

import (
	"context"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// Engine is the engine py-native, which needs Linux.
type Engine struct{}

// New returns the engine.
func New(Options) *Engine { return &Engine{} }

// Name returns py-native.
func (e *Engine) Name() string { return "py-native" }

// Languages returns python.
func (e *Engine) Languages() []string { return []string{"python"} }

// Probe reports what is missing.
func (e *Engine) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Unsupported, Reason: "its sandbox needs Linux", Fix: "run the server on Linux, or choose another engine"}
}

// Run returns an error.
func (e *Engine) Run(ctx context.Context, j engine.Job, _ bridge.Handler) (*engine.Result, error) {
	return nil, sandbox.Check(e.Name(), e.Probe(ctx), j.Sandbox)
}

// Stats returns zeroes.
func (e *Engine) Stats() Stats { return Stats{} }

// Close does nothing.
func (e *Engine) Close() error { return nil }
