// Package cpython runs Python in CPython, compiled to WebAssembly. A [Machine]
// starts the interpreter once and lets it import what programs use most; each
// [Isolate] begins from what was in memory then.
//
// The module that there is of CPython is a command: it has a main and nothing
// else to be called. The guest (boot.py) stops within it, in the middle of a
// system call, and that is where the image is taken. A run begins by calling a
// Python function of the image through the table of the module, on top of the
// stack as it was then. Nothing ever returns into main.
package cpython

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/tetratelabs/wazero"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/wasi"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// The limits of every isolate, in bytes of linear memory. The interpreter's own
// is among them.
const (
	// MinMemory is the smallest memory limit that a run may ask for.
	MinMemory = 64 << 20
	// MaxMemory is the largest.
	MaxMemory = 1 << 30
)

// Machine makes isolates. Its methods may be called concurrently.
type Machine struct {
	*wasm.Machine[*Isolate]
	layout layout
}

// layout tells what a machine has to know of its image.
type layout struct {
	StackPointer uint32
	Function     uint32 // address of the Python function that runs a program
	Call         uint32 // index in the table of the function that calls it
}

func (l layout) String() string {
	return fmt.Sprintf("%s, function %d, call %d", Version, l.Function, l.Call)
}

// New starts the interpreter and takes its image, or opens the one in the
// cache. Guest are the modules of the guest: file names and texts, of which
// guest.py runs a program, as [Isolate.Run] says. ctx bounds the start.
func New(ctx context.Context, guest map[string]string, o wasm.Options) (*Machine, error) {
	m := &Machine{}
	if err := m.start(ctx, guest, o); err != nil {
		return nil, fmt.Errorf("start CPython: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, guest map[string]string, o wasm.Options) error {
	module, err := unpackBlob()
	if err != nil {
		return err
	}
	m.Machine, err = wasm.New(ctx, wasm.Engine[*Isolate]{
		Module: module, MaxMemory: MaxMemory, Offer: offer, Open: m.open, Tick: (*Isolate).tick,
	}, o)
	if err != nil {
		return err
	}
	if err := m.begin(ctx, guest, o.CacheDir); err != nil {
		_ = m.Close() // the first error counts
		return err
	}
	return nil
}

func offer(ctx context.Context, r wazero.Runtime) error {
	return wasi.Offer(ctx, r, func(ctx context.Context) wasi.System { return doors{wasm.Of[*Isolate](ctx)} })
}

// begin takes the image from the cache, or makes it and puts it there.
func (m *Machine) begin(ctx context.Context, guest map[string]string, cacheDir string) error {
	path := imagePath(cacheDir, guest)
	if path != "" {
		image, note, err := cow.OpenImage(path)
		if err == nil && len(note) == binary.Size(m.layout) {
			_, err = binary.Decode(note, binary.LittleEndian, &m.layout)
			m.Begin(image, uint64(m.layout.StackPointer), m.layout.String())
			return err
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err := m.Boot(ctx, func(i *Isolate) (about string, err error) {
		m.layout, err = i.boot(ctx, guest)
		return m.layout.String(), err
	})
	if err != nil || path == "" {
		return err
	}
	note, err := binary.Append(nil, binary.LittleEndian, m.layout)
	if err != nil {
		return err
	}
	switch err := m.Image().Save(path, note); {
	case err == nil:
		forgetOthers(path)
	case !errors.Is(err, os.ErrPermission): // a folder that is only read has the code, and no image
		return err
	}
	return nil
}
