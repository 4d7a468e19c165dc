package py

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// The limits of every isolate, in bytes of linear memory, including the
// interpreter's own.
const (
	// MinMemory is the smallest memory limit of a run.
	MinMemory = 64 << 20
	// MaxMemory is the largest.
	MaxMemory = 1 << 30
)

// Machine makes isolates.
type Machine struct {
	*wasm.Machine[*Isolate]
	layout layout
}

// layout holds what a machine needs to know about its image.
type layout struct {
	StackPointer uint32
	Function     uint32 // address of the Python function that runs a program
	Call         uint32 // index in the table of the function that calls it
}

func (l layout) String() string {
	return fmt.Sprintf("%s, function %d, call %d", Version, l.Function, l.Call)
}

// NewMachine starts the interpreter and takes its image, or opens the image in the cache.
// Guest holds the modules of the guest, by file name; guest.py runs a program, as
// [Isolate.Run] describes. CacheDir is as in [wasm.New]. ctx bounds the start.
func NewMachine(ctx context.Context, guest map[string]string, cacheDir string) (*Machine, error) {
	m := &Machine{}
	if err := m.start(ctx, guest, cacheDir); err != nil {
		return nil, fmt.Errorf("start CPython: %w", err)
	}
	return m, nil
}

func (m *Machine) start(ctx context.Context, guest map[string]string, cacheDir string) error {
	module, err := unpackBlob()
	if err != nil {
		return err
	}
	m.Machine, err = wasm.New(ctx, wasm.Engine[*Isolate]{
		Module: module, MaxMemory: MaxMemory, Offer: instantiateHost, Open: m.open, Tick: (*Isolate).tick,
	}, cacheDir)
	if err != nil {
		return err
	}
	if err := m.openOrBoot(ctx, guest, cacheDir); err != nil {
		_ = m.Close() // the first error counts
		return err
	}
	return nil
}

func instantiateHost(ctx context.Context, r wazero.Runtime) error {
	return wasm.OfferWASI(ctx, r, func(ctx context.Context) wasm.System { return hostFunctions{wasm.IsolateOf[*Isolate](ctx)} })
}

// openOrBoot opens the image in the cache. If there is none, or it cannot be used, begin makes
// one and stores it there.
func (m *Machine) openOrBoot(ctx context.Context, guest map[string]string, cacheDir string) error {
	path := imagePath(cacheDir, guest)
	if path != "" {
		image, note, err := wasm.OpenImage(path)
		if err == nil && len(note) == binary.Size(m.layout) {
			_, err = binary.Decode(note, binary.LittleEndian, &m.layout)
			m.UseImage(image, uint64(m.layout.StackPointer), m.layout.String())
			return err
		}
		if err == nil {
			_ = image.Close()
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
		removeOtherImages(path)
	case !errors.Is(err, os.ErrPermission): // a read-only folder has the code and no image
		return err
	}
	return nil
}
