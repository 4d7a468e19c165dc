package cpython

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/table"

	"github.com/toolroom/toolroom/internal/engine/cow"
	"github.com/toolroom/toolroom/internal/engine/wasmfuel"
)

// maxUses is how many runs an isolate serves before it is replaced, so that a
// defect of the reset, should there be one, does not add up.
const maxUses = 1000

// Isolate is one copy of the interpreter. One goroutine uses it at a time.
type Isolate struct {
	machine *Machine
	memory  *cow.Memory
	limit   uint64 // of the memory, in bytes
	module  api.Module
	stack   api.MutableGlobal
	fuel    api.MutableGlobal
	call    api.Function

	booting *booting // while the machine starts
	run     *run     // nil between runs
	uses    int
	bad     bool // it must not be used again
}

// limited is a memory that grows no further than the run may.
type limited struct {
	*cow.Memory
	isolate *Isolate
}

// Reallocate grows the memory; nil when it may not, which the guest sees as
// memory that is used up.
func (l limited) Reallocate(size uint64) []byte {
	if size > l.isolate.limit {
		return nil
	}
	return l.Memory.Reallocate(size)
}

func (i *Isolate) find() error {
	stack, ok := i.module.ExportedGlobal("__stack_pointer").(api.MutableGlobal)
	if !ok {
		return errors.New("its stack pointer is not exported")
	}
	i.stack = stack
	i.fuel = i.module.ExportedGlobal(wasmfuel.Global).(api.MutableGlobal)
	return nil
}

type isolateKey struct{}

func (i *Isolate) context(ctx context.Context) context.Context {
	return context.WithValue(ctx, isolateKey{}, i)
}

func isolateOf(ctx context.Context) *Isolate { return ctx.Value(isolateKey{}).(*Isolate) }

// adopt makes a new isolate a copy of the image.
func (i *Isolate) adopt(image *cow.Image) error {
	memory := i.module.Memory()
	if missing := len(image.Bytes()) - int(memory.Size()); missing > 0 {
		if _, ok := memory.Grow(uint32(missing / cow.PageSize)); !ok {
			return errors.New("there is no memory for a Python isolate")
		}
	}
	if err := i.memory.Adopt(image); err != nil {
		return err
	}
	l := i.machine.layout
	i.stack.Set(uint64(l.StackPointer))
	word := api.ValueTypeI32
	i.call = table.LookupFunction(i.module, 0, l.Call, []api.ValueType{word, word, word, word}, []api.ValueType{word})
	return nil
}

// Release gives the isolate back. It is put to the state in which it was
// given, or dropped where that cannot be done exactly.
func (i *Isolate) Release() {
	i.uses++
	i.run, i.limit = nil, MaxMemory
	if i.bad || i.uses >= maxUses {
		i.close()
		return
	}
	if _, err := i.memory.Reset(); err != nil {
		i.close()
		return
	}
	i.stack.Set(uint64(i.machine.layout.StackPointer))
	i.fuel.Set(0)
	if !i.machine.keep(i) {
		i.close()
	}
}

func (i *Isolate) close() {
	_ = i.module.Close(context.Background()) // frees the memory; an instance without files cannot fail to close
}

// Save gives all that the run has left behind, for [Isolate.Load] to go on
// from. It is called after a run that has finished. A state is as trustworthy
// as the program that made it.
func (i *Isolate) Save() ([]byte, error) {
	if i.bad {
		return nil, errors.New("the interpreter did not end the run cleanly")
	}
	memory := i.module.Memory()
	content, _ := memory.Read(0, memory.Size())
	return i.machine.packer.Pack(content, i.machine.image.Bytes())
}

// Load makes a fresh isolate what another was when it was saved. It fails with
// [cow.ErrDelta] for bytes that are no state.
func (i *Isolate) Load(state []byte) error {
	err := i.machine.packer.Unpack(state, i.module.Memory())
	i.bad = i.bad || err != nil
	return err
}

// End says how a run ended.
type End int

// The ends.
const (
	// Finished: the guest sent its last frame.
	Finished End = iota
	// Cancelled: the host asked for it.
	Cancelled
	// Crashed: the interpreter failed or ended. The error says how.
	Crashed
)

// ErrRefused says that a frame was not taken: the guest has written nothing.
var ErrRefused = errors.New("the frame is refused")

// Port is how a run speaks with its host.
type Port struct {
	// Inbox has the frames of the bridge for the guest, with their lengths.
	Inbox *Inbox
	// Send takes a frame of the guest, without its length. It is called from
	// the goroutine of the run, and must not keep the frame. Last reports that
	// the run is over. The guest learns of ErrRefused, and goes on; any other
	// error ends the run.
	Send func(frame []byte) (last bool, err error)
	// Print takes what the interpreter itself writes, of stdout or stderr.
	Print func(stream string, text []byte) error
	// Memory is the limit of the linear memory in bytes, [MaxMemory] if zero.
	Memory int64
}

// run is one run of an isolate.
type run struct {
	ctx      context.Context
	port     Port
	started  time.Time
	sent     []byte // of a frame that is not whole yet
	finished bool
	err      error // what a door could not do
}

// Run lets the guest serve one program over the port, until it sends its last
// frame. The guest reads and writes file descriptor 0.
//
// An error tells more of an end other than Finished. The isolate must be
// released after it.
func (i *Isolate) Run(ctx context.Context, port Port) (End, error) {
	r := &run{ctx: ctx, port: port, started: time.Now()}
	i.run = r
	if port.Memory > 0 {
		i.limit = uint64(port.Memory)
	}
	_, err := i.call.Call(i.context(ctx), uint64(i.machine.layout.Function), 0, 0, 0)
	i.bad = i.bad || err != nil
	switch {
	case r.finished:
		// What goes on after the last frame is of no interest to anybody.
		return Finished, nil
	case r.err != nil:
		i.bad = true
		return Crashed, r.err
	case r.stopped():
		return Cancelled, nil
	case err == nil:
		i.bad = true
		return Crashed, errors.New("the guest ended without a last word")
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return Crashed, exit
	}
	return Crashed, fmt.Errorf("CPython failed: %w", err)
}

func (r *run) stopped() bool { return r.port.Inbox.cancelled.Load() || r.ctx.Err() != nil }
