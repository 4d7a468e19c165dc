package wasm

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/cow/delta"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

const (
	// fuel is how many units a guest gets at a time, worth some milliseconds.
	fuel = 400_000
	// maxUses is how many runs an isolate serves before it is replaced, so that a
	// defect of the reset, should there be one, does not add up.
	maxUses = 1000
)

// Instance is what the isolates of all engines are made of: an instance of the
// module, with its memory. One goroutine uses it at a time.
type Instance struct {
	// Module is the instance in wazero.
	Module api.Module
	// Bad says that it must not be used again.
	Bad bool

	memory *memory
	packer *delta.Packer
	image  *cow.Image // nil in the first, which boots
	stack  api.MutableGlobal
	fuel   api.MutableGlobal
	uses   int
}

// memory is one that grows no further than the run may.
type memory struct {
	*cow.Memory
	limit uint64
}

// Reallocate grows the memory; nil when it may not, which the guest sees as
// memory that is used up.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		return nil
	}
	return m.Memory.Reallocate(size)
}

func (i *Instance) instance() *Instance { return i }

func (i *Instance) find() error {
	var ok bool
	if i.stack, ok = i.Module.ExportedGlobal("__stack_pointer").(api.MutableGlobal); !ok {
		return errors.New("its stack pointer is not exported")
	}
	i.fuel = i.Module.ExportedGlobal(wasmfuel.Global).(api.MutableGlobal)
	return nil
}

// adopt makes a new instance a copy of the image.
func (i *Instance) adopt(image *cow.Image, stackPointer uint64) error {
	memory := i.Module.Memory()
	if missing := len(image.Bytes()) - int(memory.Size()); missing > 0 {
		if _, ok := memory.Grow(uint32(missing / cow.PageSize)); !ok {
			return errors.New("there is no memory for one more isolate")
		}
	}
	if err := i.memory.Adopt(image); err != nil {
		return err
	}
	i.image = image
	i.stack.Set(stackPointer)
	return nil
}

// reset puts the instance back to the image after a run, and tells whether it
// is as good as new.
func (i *Instance) reset(stackPointer, maxMemory uint64) bool {
	i.uses++
	if i.Bad || i.uses >= maxUses {
		return false
	}
	if _, err := i.memory.Reset(); err != nil {
		return false
	}
	i.memory.limit = maxMemory
	i.stack.Set(stackPointer)
	i.fuel.Set(0)
	return true
}

func (i *Instance) close() {
	_ = i.Module.Close(context.Background()) // frees the memory; an instance without files cannot fail to close
}

// LimitMemory bounds the memory of the present run, in bytes.
func (i *Instance) LimitMemory(bytes uint64) { i.memory.limit = bytes }

// Refuel gives the guest some milliseconds until the next tick.
func (i *Instance) Refuel() { i.fuel.Set(fuel) }

// StackPointer is that of the guest.
func (i *Instance) StackPointer() uint64 { return i.stack.Get() }

// Save gives all that the run has left behind, for [Instance.Load] to go on
// from: the memory where it differs from the image. It is called after a run
// that has finished. A state is as trustworthy as the program that made it.
func (i *Instance) Save() ([]byte, error) {
	if i.Bad {
		return nil, errors.New("the engine did not end the run cleanly")
	}
	memory := i.Module.Memory()
	content, _ := memory.Read(0, memory.Size())
	return i.packer.Pack(content, i.image.Bytes())
}

// Load makes a fresh isolate what another was when it was saved. It fails with
// [delta.ErrInvalid] for bytes that are no state.
func (i *Instance) Load(state []byte) error {
	err := i.packer.Unpack(state, i.Module.Memory())
	i.Bad = i.Bad || err != nil
	return err
}

type isolateKey struct{}

// With is the context of calls into an isolate, by which [Of] finds it again.
func With[I Isolate](ctx context.Context, i I) context.Context {
	return context.WithValue(ctx, isolateKey{}, i)
}

// Of is the isolate that calls the host.
func Of[I Isolate](ctx context.Context) I { return ctx.Value(isolateKey{}).(I) }
