package quickjs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/proc"
)

// Isolate is one copy of the engine. One goroutine uses it at a time.
type Isolate struct {
	*wasm.Instance
	machine *Machine

	call, job, pending, newBytes, newString, utf8, freeUTF8, bytesOf, undefined, limitMemory, isString, malloc, free, freeValue, collect, promiseState, promiseResult function

	run *run // nil between runs
}

// function is an exported function with the stack that its calls need.
type function struct {
	api.Function
	stack [6]uint64
}

func (f *function) do(ctx context.Context, args ...uint64) (uint64, error) {
	copy(f.stack[:], args)
	err := f.CallWithStack(ctx, f.stack[:])
	return f.stack[0], err
}

// open returns an isolate of a new instance.
func (m *Machine) open(instance *wasm.Instance) (*Isolate, error) {
	i := &Isolate{Instance: instance, machine: m}
	for name, f := range map[string]*function{
		"qjs_call": &i.call, "qjs_execute_pending_job": &i.job, "qjs_is_job_pending": &i.pending,
		"qjs_new_uint8_array": &i.newBytes, "qjs_new_string": &i.newString, "qjs_get_string_len": &i.utf8,
		"qjs_free_cstring": &i.freeUTF8, "JS_GetUint8Array": &i.bytesOf, "qjs_get_undefined": &i.undefined,
		"qjs_set_memory_limit": &i.limitMemory, "qjs_is_string": &i.isString,
		"wasm_malloc": &i.malloc, "wasm_free": &i.free, "qjs_free_value": &i.freeValue, "qjs_run_gc": &i.collect,
		"qjs_promise_state": &i.promiseState, "qjs_promise_result": &i.promiseResult,
	} {
		f.Function = i.Module.ExportedFunction(name)
	}
	return i, nil
}

// Release returns the isolate to its machine, as in [wasm.Machine.Release].
func (i *Isolate) Release() {
	i.run = nil
	i.machine.Release(i)
}

// collectTimeout limits the time for collecting the garbage of a run.
const collectTimeout = 10 * time.Second

// Save returns the state after a run, as in [wasm.Instance.Save].
func (i *Isolate) Save(ctx context.Context) ([]byte, error) {
	if !i.Bad {
		// The run and its time are over; collecting has its own limit.
		i.run = &run{ctx: ctx, port: i.run.port, deadline: time.Now().Add(collectTimeout)}
		if _, err := i.collect.do(wasm.WithIsolate(ctx, i)); err != nil {
			i.Bad = true
			if end, err := i.classify(err); end == Crashed {
				return nil, fmt.Errorf("collect garbage: %w", err)
			}
			return nil, fmt.Errorf("garbage could not be collected within %s", collectTimeout)
		}
	}
	return i.Instance.Save()
}

// End is the way in which a run ended.
type End int

// The ways in which a run can end.
const (
	// Finished: the guest sent its last frame.
	Finished End = iota
	// TimedOut: the deadline passed.
	TimedOut
	// OutOfCPU: the processor time was used up.
	OutOfCPU
	// Cancelled: the server cancelled the run.
	Cancelled
	// OutOfMemory: the engine itself ran out of memory.
	OutOfMemory
	// Crashed: the engine failed. The error has the details.
	Crashed
)

// Frame is one message to or from the guest.
type Frame struct {
	Kind, ID uint32
	// Body is JSON if Text is set. The guest then gets a string, else bytes.
	Body []byte
	Text bool
}

// Port connects a run to the server.
type Port struct {
	// Inbox holds the frames for the guest. The first is delivered at once.
	Inbox *wasm.Inbox[Frame]
	// Send handles a frame of the guest. It is called from the goroutine of the run,
	// and must not keep the body. Last reports that the run is over.
	Send func(Frame) (last bool, err error)
	// Find returns the JSON of the tool at a path, true if there are tools below the
	// path, or nothing. A nil Find finds nothing.
	Find func(path string) []byte
	// Memory is the limit of the guest's memory in bytes, at most [MaxMemory], which
	// is the default. Wall and CPU limit the time and the processor time of this
	// process, if not zero.
	Memory    int64
	Wall, CPU time.Duration
	// Keep means that the isolate will be saved after the run.
	Keep bool
	// Seed seeds random numbers. If it is empty, they come from the system.
	Seed []byte
}

// run is one run of an isolate.
type run struct {
	ctx        context.Context
	port       Port
	deadline   time.Time
	cpu        proc.CPUMeter
	interrupt  End // why the guest was interrupted
	finished   bool
	seededRand *rand.ChaCha8 // nil if random numbers come from the system
	err        error         // the error of a host function
}

// noTimeLimit is longer than any run. It stands for no time limit.
const noTimeLimit = 24 * 365 * time.Hour

// Run delivers the frames of the inbox to the guest until it sends its last.
//
// The prelude finds the host functions in the global __hostFunctions, where it
// leaves deliver and status. Deliver is a function that takes the body of a frame as
// string or Uint8Array, undefined if a timer is due, or null if nothing can happen
// any more. Status is an Int32Array whose words are defined in hostfuncs.go.
//
// The error describes any end other than Finished. The isolate must be released
// afterwards.
func (i *Isolate) Run(ctx context.Context, port Port) (End, error) {
	r := &run{ctx: ctx, port: port, deadline: time.Now().Add(cmp.Or(port.Wall, noTimeLimit)), cpu: proc.MeterCPU(port.CPU)}
	if len(port.Seed) > 0 {
		r.seededRand = rand.NewChaCha8(sha256.Sum256(port.Seed))
	}
	i.run = r
	i.Refuel()
	within := wasm.WithIsolate(ctx, i)
	_, err := i.limitMemory.do(within, uint64(min(cmp.Or(port.Memory, MaxMemory), MaxMemory)))
	var end End
	if err != nil {
		end, err = i.classify(err)
	} else {
		end, err = i.serve(within, r)
	}
	if end != Finished {
		i.Bad = true
	}
	return end, err
}

func (i *Isolate) serve(ctx context.Context, r *run) (End, error) {
	for {
		d, end := i.nextDelivery(r)
		if end != Finished {
			return end, nil
		}
		err := i.deliver(ctx, d)
		if err == nil && !r.finished {
			err = i.runJobs(ctx, r)
		}
		switch {
		case r.finished:
			// An error after the last frame does not matter, but the isolate is not
			// used again.
			i.Bad = i.Bad || err != nil
			return Finished, nil
		case r.err != nil:
			return Crashed, r.err
		case r.interrupt != Finished:
			return r.interrupt, nil
		case err != nil:
			return i.classify(err)
		}
	}
}

// nextDelivery waits for something to deliver: a frame, a due timer, or the end if nothing can
// happen any more.
func (i *Isolate) nextDelivery(r *run) (delivery, End) {
	if frame, ok := r.port.Inbox.Take(); ok {
		return delivery{kind: deliverFrame, frame: frame}, Finished
	}
	questions, timer := i.status(wordQuestions), i.status(wordTimer)
	if questions == 0 && timer < 0 {
		return delivery{kind: deliverEnd}, Finished
	}
	wait := time.Until(r.deadline)
	due := timer >= 0 && time.Duration(timer)*time.Millisecond < wait
	if due {
		wait = time.Duration(timer) * time.Millisecond
	}
	frame, ok := r.port.Inbox.Wait(r.ctx, wait)
	switch {
	case r.port.Inbox.Cancelled() || r.ctx.Err() != nil:
		return delivery{}, Cancelled
	case ok:
		return delivery{kind: deliverFrame, frame: frame}, Finished
	case due:
		return delivery{kind: deliverTimer}, Finished
	}
	return delivery{}, TimedOut
}

// delivery is an argument for deliver of the prelude.
type delivery struct {
	kind  int
	frame Frame
}

const (
	deliverFrame = iota
	deliverTimer
	deliverEnd
)

func (i *Isolate) deliver(ctx context.Context, d delivery) error {
	l := i.machine.layout
	argument := uint64(l.undefined)
	switch d.kind {
	case deliverEnd:
		argument = uint64(l.null)
	case deliverFrame:
		var err error
		if argument, err = i.passFrame(ctx, d.frame); err != nil {
			return err
		}
	}
	if !i.Module.Memory().WriteUint32Le(l.arguments, uint32(argument)) {
		return errLayout
	}
	box, err := i.call.do(ctx, uint64(l.deliver), uint64(l.undefined), 1, uint64(l.arguments))
	if err == nil && box == 0 {
		err = errNoMemory
	}
	if err == nil && i.run.port.Keep {
		err = i.freeBoxes(ctx, box, argument)
	}
	return err
}

// freeBoxes frees boxes. It is called in runs that another run continues; in others the boxes
// disappear with the memory.
func (i *Isolate) freeBoxes(ctx context.Context, boxes ...uint64) error {
	for _, box := range boxes {
		if box == uint64(i.machine.layout.undefined) || box == uint64(i.machine.layout.null) {
			continue
		}
		if _, err := i.freeValue.do(ctx, box); err != nil {
			return err
		}
	}
	return nil
}

// runJobs runs the jobs of settled promises. Jobs may create other jobs without end, each too short
// for QuickJS to check for an interrupt, so runJobs checks whether the run must end.
func (i *Isolate) runJobs(ctx context.Context, r *run) error {
	for n := 1; !r.finished && r.err == nil && r.interrupt == Finished; n++ {
		if n%256 == 0 {
			if r.interrupt = r.endReason(0); r.interrupt != Finished {
				return nil
			}
		}
		more, err := i.pending.do(ctx)
		if err != nil || uint32(more) == 0 {
			return err
		}
		if _, err := i.job.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

var (
	errLayout   = errors.New("the image of QuickJS is not as it was made")
	errNoMemory = errors.New("out of memory")
)

// classify returns how a run ended, from the error of a WebAssembly call.
func (i *Isolate) classify(err error) (End, error) {
	if stop, ok := errors.AsType[*stopError](err); ok {
		return stop.end, nil
	}
	if errors.Is(err, errNoMemory) {
		return OutOfMemory, err
	}
	return Crashed, fmt.Errorf("QuickJS failed: %w", err)
}
