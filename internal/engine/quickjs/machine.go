// Package quickjs runs JavaScript in QuickJS-NG, compiled to WebAssembly. A
// [Machine] starts the engine once and loads a prelude; each [Isolate] begins
// from what was in memory then.
//
// JavaScript and Go meet at few places, none of which takes an object of the
// guest: frames as bytes that the prelude made, and strings. Nothing of the
// guest runs while Go serves it, so a Proxy or a getter cannot re-enter.
package quickjs

import (
	"context"
	"fmt"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// The limits of every isolate, in bytes.
const (
	// MaxMemory is the largest memory limit that a run may ask for.
	MaxMemory = 1 << 30
	// stackSize is what QuickJS may use of the 1 MiB stack that the module was
	// linked with: what is over it is a RangeError and not a trap.
	stackSize = 256 << 10
	// slack is free memory that the image holds, so that a usual run does not
	// grow past it, for a memory that grew cannot be put back.
	slack = 4 << 20
	// headroom is what the engine needs beside the values of the guest.
	headroom = 32 << 20
)

// Machine makes isolates. Its methods may be called concurrently.
type Machine struct {
	*wasm.Machine[*Isolate]
	layout layout
}

// New starts the engine and takes its image. Prelude is JavaScript that every
// run finds already executed, as [Isolate.Run] describes it. ctx bounds the
// start.
func New(ctx context.Context, prelude string, o wasm.Options) (*Machine, error) {
	m := &Machine{}
	if err := m.start(ctx, prelude, o); err != nil {
		return nil, fmt.Errorf("start QuickJS: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, prelude string, o wasm.Options) (err error) {
	if err := checkBlob(); err != nil {
		return err
	}
	m.Machine, err = wasm.New(ctx, wasm.Engine[*Isolate]{
		Module: blob, MaxMemory: MaxMemory + headroom, Offer: offerHost, Open: m.open, Tick: (*Isolate).tick,
	}, o)
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
