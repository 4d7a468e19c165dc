package py

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental/table"

	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/proc"
)

// Isolate is one copy of the interpreter. One goroutine uses it at a time.
type Isolate struct {
	*wasm.Instance
	machine *Machine
	call    api.Function // nil in the isolate that boots

	booting *booting // while the machine starts
	run     *run     // nil between runs
}

// open returns an isolate of a new instance.
func (m *Machine) open(instance *wasm.Instance) (*Isolate, error) {
	i := &Isolate{Instance: instance, machine: m}
	if m.layout.Call != 0 {
		word := api.ValueTypeI32
		i.call = table.LookupFunction(i.Module, 0, m.layout.Call, []api.ValueType{word, word, word, word}, []api.ValueType{word})
	}
	return i, nil
}

// Release returns the isolate to its machine, as in [wasm.Machine.Release].
func (i *Isolate) Release() {
	i.run = nil
	i.machine.Release(i)
}

// End is the way in which a run ended.
type End int

// The ways in which a run can end.
const (
	// Finished: the guest sent its last frame.
	Finished End = iota
	// OutOfCPU: the processor time was used up.
	OutOfCPU
	// Cancelled: the server cancelled the run.
	Cancelled
	// Crashed: the interpreter failed or ended. The error has the details.
	Crashed
)

// ErrRefused means that Send refused a frame, as if the guest had not written it.
var ErrRefused = errors.New("the frame is refused")

// Port connects a run to the server.
type Port struct {
	// Inbox holds the frames of the bridge for the guest, with their lengths, in
	// pieces of any size.
	Inbox *wasm.Inbox[[]byte]
	// Send handles a frame of the guest, without its length. It is called from the
	// goroutine of the run, and must not keep the frame. Last reports that the run
	// is over. The guest sees ErrRefused and continues; any other error ends the
	// run.
	Send func(frame []byte) (last bool, err error)
	// Print handles output of the interpreter itself, on stdout or stderr.
	Print func(stream string, text []byte) error
	// Memory is the limit of the linear memory in bytes, [MaxMemory] if zero.
	Memory int64
	// CPU limits the processor time of this process, if not zero.
	CPU time.Duration
}

// run is one run of an isolate.
type run struct {
	ctx      context.Context
	port     Port
	started  time.Time
	cpu      proc.CPUMeter
	unread   []byte // of the inbox, the part that the guest has not read
	partial  []byte // of a frame that is not complete yet
	finished bool
	err      error // the error of a host function
}

// Run makes the guest serve one program over the port, until it sends its last
// frame. The guest reads and writes file descriptor 0.
//
// The error describes any end other than Finished. The isolate must be released
// afterwards.
func (i *Isolate) Run(ctx context.Context, port Port) (End, error) {
	r := &run{ctx: ctx, port: port, started: time.Now(), cpu: proc.MeterCPU(port.CPU)}
	i.run = r
	if port.Memory > 0 {
		i.LimitMemory(uint64(port.Memory))
	}
	_, err := i.call.Call(wasm.WithIsolate(ctx, i), uint64(i.machine.layout.Function), 0, 0, 0)
	i.Bad = i.Bad || err != nil
	switch {
	case r.finished:
		// Errors after the last frame do not matter.
		return Finished, nil
	case r.err != nil:
		i.Bad = true
		return Crashed, r.err
	case r.cpu.Exceeded():
		return OutOfCPU, nil
	case r.stopped():
		return Cancelled, nil
	case err == nil:
		i.Bad = true
		return Crashed, errors.New("the guest ended without a last word")
	}
	if exit, ok := errors.AsType[*wasm.ExitError](err); ok {
		return Crashed, fmt.Errorf("the interpreter ended with exit code %d", exit.Code)
	}
	return Crashed, fmt.Errorf("CPython failed: %w", err)
}

func (r *run) stopped() bool { return r.port.Inbox.Cancelled() || r.ctx.Err() != nil }

// waitForBytes waits until there are bytes for the guest. It returns false after a cancellation
// and when the time is over.
func (r *run) waitForBytes(atMost time.Duration) bool {
	if len(r.unread) == 0 {
		r.unread, _ = r.port.Inbox.Wait(r.ctx, atMost)
	}
	return len(r.unread) > 0
}

// read copies bytes for the guest to to, and returns their number.
func (r *run) read(to []byte) int {
	n := 0
	for n < len(to) {
		if len(r.unread) == 0 {
			var ok bool
			if r.unread, ok = r.port.Inbox.Take(); !ok {
				break
			}
		}
		moved := copy(to[n:], r.unread)
		n, r.unread = n+moved, r.unread[moved:]
	}
	return n
}
