package wasm

import (
	"context"
	"errors"

	"github.com/tetratelabs/wazero/api"
)

const (
	// fuel is how many units a guest gets at a time, enough for some milliseconds.
	fuel = 400_000
	// maxUses is how many runs an isolate serves before it is replaced, so that a
	// possible defect of the reset does not accumulate.
	maxUses = 1000
)

// Instance is the base of the isolates of all engines: an instance of the module,
// with its memory. One goroutine uses it at a time.
type Instance struct {
	// Module is the instance in wazero.
	Module api.Module
	// Bad means that the instance must not be used again.
	Bad bool

	memory *Memory
	packer *packer
	image  *Image // nil in the instance that boots
	stack  api.MutableGlobal
	fuel   api.MutableGlobal
	uses   int
}

func (i *Instance) instance() *Instance { return i }

func (i *Instance) findGlobals() error {
	var ok bool
	if i.stack, ok = i.Module.ExportedGlobal("__stack_pointer").(api.MutableGlobal); !ok {
		return errors.New("its stack pointer is not exported")
	}
	i.fuel = i.Module.ExportedGlobal(FuelGlobal).(api.MutableGlobal)
	return nil
}

// adopt turns a new instance into a copy of the image.
func (i *Instance) adopt(image *Image, stackPointer uint64) error {
	memory := i.Module.Memory()
	if missing := len(image.Bytes()) - int(memory.Size()); missing > 0 {
		if _, ok := memory.Grow(uint32(missing / PageSize)); !ok {
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

// reset resets the instance to the image after a run. It returns false if the instance must not be
// used again.
func (i *Instance) reset(stackPointer, maxMemory uint64) bool {
	i.uses++
	if i.Bad || i.uses >= maxUses {
		return false
	}
	if _, err := i.memory.Reset(); err != nil {
		return false
	}
	i.memory.Limit = maxMemory
	i.stack.Set(stackPointer)
	i.fuel.Set(0)
	return true
}

func (i *Instance) close() {
	_ = i.Module.Close(context.Background()) // frees the memory; closing an instance without files cannot fail
}

// LimitMemory limits the memory of the current run, in bytes.
func (i *Instance) LimitMemory(bytes uint64) { i.memory.Limit = bytes }

// Refuel lets the guest run for some milliseconds until the next tick.
func (i *Instance) Refuel() { i.fuel.Set(fuel) }

// StackPointer returns the guest's stack pointer.
func (i *Instance) StackPointer() uint64 { return i.stack.Get() }

// Save returns the state that the run has left, for [Instance.Load]: the memory
// where it differs from the image. Call it after a run that has finished. A state is
// only as trustworthy as the program that made it.
func (i *Instance) Save() ([]byte, error) {
	if i.Bad {
		return nil, errors.New("the engine did not end the run cleanly")
	}
	memory := i.Module.Memory()
	content, _ := memory.Read(0, memory.Size())
	return i.packer.pack(content, i.image.Bytes())
}

// Load puts a fresh isolate into a saved state. It fails with [ErrInvalid] if
// the bytes are not a state.
func (i *Instance) Load(state []byte) error {
	err := i.packer.unpack(state, i.Module.Memory())
	i.Bad = i.Bad || err != nil
	return err
}

type isolateKey struct{}

// WithIsolate returns the context of calls into an isolate, from which [IsolateOf] returns it.
func WithIsolate[I Isolate](ctx context.Context, i I) context.Context {
	return context.WithValue(ctx, isolateKey{}, i)
}

// IsolateOf returns the isolate that has called a host function, from the context of the call.
func IsolateOf[I Isolate](ctx context.Context) I { return ctx.Value(isolateKey{}).(I) }
