// Package quickjs runs JavaScript in QuickJS-NG, compiled to WebAssembly. A
// [Machine] starts the engine once and loads a prelude; each [Isolate] begins
// from what was in memory then.
//
// JavaScript and Go exchange only bytes of frames that the prelude made, and
// strings, never an object of the guest. No guest code runs while Go serves it, so
// a Proxy or a getter cannot re-enter.
//
// [Main] is the worker process of the engine js: it runs the programs that the
// server sends. The package is small, and what prepares programs is in package js,
// because the start of a worker is part of the first run.
package quickjs

import (
	"context"
	"fmt"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// The limits of every isolate, in bytes.
const (
	// MaxMemory is the largest memory limit of a run.
	MaxMemory = 1 << 30
	// stackSize is the part of the module's 1 MiB stack that QuickJS may use.
	// Exceeding it is a RangeError and not a trap.
	stackSize = 256 << 10
	// slack is free memory in the image. It keeps a usual run from growing the
	// memory, which could then not be reset.
	slack = 4 << 20
	// headroom is the memory that the engine needs in addition to the guest's values.
	headroom = 32 << 20
)

// Machine makes isolates.
type Machine struct {
	*wasm.Machine[*Isolate]
	layout layout
}

// New starts the engine and takes its image. Prelude is JavaScript that has already
// run in every isolate, as [Isolate.Run] describes. CacheDir is as in [wasm.New]. ctx
// bounds the start.
func New(ctx context.Context, prelude, cacheDir string) (*Machine, error) {
	m := &Machine{}
	if err := m.start(ctx, prelude, cacheDir); err != nil {
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, prelude, cacheDir string) (err error) {
	if err := checkBlob(); err != nil {
		return err
	}
	m.Machine, err = wasm.New(ctx, wasm.Engine[*Isolate]{
		Module: blob, MaxMemory: MaxMemory + headroom, Offer: offerHost, Open: m.open, Tick: (*Isolate).tick,
	}, cacheDir)
	if err != nil {
		return err
	}
	err = m.Boot(ctx, func(i *Isolate) (string, error) {
		m.layout, err = i.boot(ctx, prelude)
		return fmt.Sprintf("%s %+v", Version, m.layout), err
	})
	if err != nil {
		_ = m.Close() // the first error counts
	}
	return err
}
