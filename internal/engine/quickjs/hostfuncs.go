package quickjs

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// The words of the prelude's status, an Int32Array. The guest writes them, so they
// can be any number.
const (
	wordQuestions = iota // sent frames that await a result
	wordTimer            // milliseconds until a timer is due, -1 if none is set
	wordFirst            // arguments of a host function, and the description of a delivery
	wordSecond
	wordThird
	words
)

// status returns a word that the prelude wrote.
func (i *Isolate) status(word uint32) int32 {
	value, _ := i.Module.Memory().ReadUint32Le(i.machine.layout.status + 4*word)
	return int32(value)
}

func (i *Isolate) setStatus(word uint32, value uint32) {
	i.Module.Memory().WriteUint32Le(i.machine.layout.status+4*word, value)
}

// stopError ends the execution of an isolate from within.
type stopError struct{ end End }

func (e *stopError) Error() string { return fmt.Sprintf("stopped, end %d", e.end) }

// interruptGrace is how long the guest may continue after the interrupt, for example in
// one long operation that does not check for interrupts.
const interruptGrace = 10 * time.Millisecond

// endReason returns how the run must end now, or Finished if it may continue. Extra is added to the
// deadline.
func (r *run) endReason(extra time.Duration) End {
	switch {
	case r.finished: // code that runs after the last frame
		return Cancelled
	case r.port.Inbox.Cancelled() || r.ctx.Err() != nil:
		return Cancelled
	case time.Now().After(r.deadline.Add(extra)):
		return TimedOut
	case r.cpu.Exceeded():
		return OutOfCPU
	}
	return Finished
}

// tick is called when the fuel is used up.
func (i *Isolate) tick() {
	if i.run == nil {
		return // the machine is starting
	}
	i.run.port.Inbox.Computing()
	over := i.run.cpu.Exceeded() // first, because an interrupted run may continue
	i.run.cpu.Check()
	if i.run.interrupt == Finished {
		// QuickJS checks for interrupts itself and unwinds cleanly; this is for code
		// that does not check.
		if end := i.run.endReason(interruptGrace); end != Finished && (end != OutOfCPU || over) {
			panic(&stopError{end})
		}
	} else if time.Now().After(i.run.deadline.Add(interruptGrace)) || i.run.interrupt == Cancelled || over {
		panic(&stopError{i.run.interrupt})
	}
}

// interrupt is QuickJS's interrupt handler, called every few thousand steps. The
// guest cannot catch the exception that it throws.
func interrupt(ctx context.Context, _ api.Module, stack []uint64) {
	i := wasm.IsolateOf[*Isolate](ctx)
	stack[0] = 0
	if i.run == nil {
		return
	}
	if end := i.run.endReason(0); end != Finished {
		i.run.interrupt = end
		stack[0] = 1
	}
}

// preludeFunction is a function that the prelude may call. It returns a box of the
// guest, 0 for undefined.
type preludeFunction func(ctx context.Context, i *Isolate, argument uint32) uint64

// preludeFunctions are identified by their names.
var preludeFunctions = [...]struct {
	name string
	call preludeFunction
}{
	{"send", sendFrame},       // (string or Uint8Array): the body of a frame, of bytes the first [first]; [second] is its kind, [third] its id
	{"text", decodeText},      // (Uint8Array): returns the string of its bytes [first] to [second]
	{"encoded", encodeText},   // (string): returns its UTF-8 as Uint8Array
	{"random", randomBytes},   // (): returns a Uint8Array of [first] random bytes
	{"tool", findTool},        // (string): returns the JSON of what is at a path, undefined if nothing
	{"settled", settledValue}, // (promise): returns its value and sets [first] if it is fulfilled and no job of another promise waits
	{"await", awaitFrame},     // (): waits for a frame and returns its body; [first] is its kind, [second] its id
}

func hostCall(ctx context.Context, module api.Module, stack []uint64) {
	name, count, argv := uint32(stack[0]), uint32(stack[3]), uint32(stack[4])
	length := uint32(stack[1])
	i := wasm.IsolateOf[*Isolate](ctx)
	stack[0] = 0
	text, ok := module.Memory().Read(name, length)
	if !ok {
		panic(errLayout)
	}
	for _, d := range preludeFunctions {
		if d.name != string(text) {
			continue
		}
		var argument uint32
		if count > 0 {
			argument, _ = module.Memory().ReadUint32Le(argv)
		}
		box := d.call(ctx, i, argument)
		if box == 0 {
			box = must(i.undefined.do(ctx))
		}
		stack[0] = box
		return
	}
	panic(errLayout)
}

// must ends the execution if an engine function called by a host function has failed.
func must(value uint64, err error) uint64 {
	if err != nil {
		panic(err)
	}
	return value
}

// bytes returns the bytes of a Uint8Array of the guest, and their address. They are
// valid until the guest runs again.
func (i *Isolate) bytes(ctx context.Context, box uint32) (data []byte, at uint32) {
	memory := i.Module.Memory()
	value, ok := memory.ReadUint64Le(box)
	if !ok {
		return nil, 0
	}
	l := i.machine.layout
	at = uint32(must(i.bytesOf.do(ctx, uint64(l.context), uint64(l.scratch), value)))
	length, _ := memory.ReadUint32Le(l.scratch)
	if at == 0 {
		return nil, 0
	}
	data, _ = memory.Read(at, length)
	return data, at
}

func sendFrame(ctx context.Context, i *Isolate, argument uint32) uint64 {
	r := i.run
	if r == nil || r.finished {
		return 0
	}
	f := Frame{Kind: uint32(i.status(wordSecond)), ID: uint32(i.status(wordThird))}
	pointer := i.borrowText(ctx, argument, &f.Body)
	if f.Text = pointer != 0; !f.Text {
		f.Body, _ = i.bytes(ctx, argument)
		n := int(i.status(wordFirst))
		if n < 0 || n > len(f.Body) {
			return 0
		}
		f.Body = f.Body[:n]
	}
	last, err := r.port.Send(f)
	if err != nil {
		r.err = err
		panic(err)
	}
	if f.Text {
		must(i.freeUTF8.do(ctx, pointer))
	}
	r.finished = last
	return 0
}

// borrowText returns the UTF-8 of a string of the guest, to be freed by its
// pointer, or 0 if the value is not a string. For an object this would call methods
// of the guest.
func (i *Isolate) borrowText(ctx context.Context, box uint32, text *[]byte) (pointer uint64) {
	if uint32(must(i.isString.do(ctx, uint64(box)))) == 0 {
		return 0
	}
	at := i.machine.layout.scratch
	pointer = must(i.utf8.do(ctx, uint64(box), uint64(at)))
	length, _ := i.Module.Memory().ReadUint32Le(at)
	*text, _ = i.Module.Memory().Read(uint32(pointer), length)
	return pointer
}

func decodeText(ctx context.Context, i *Isolate, argument uint32) uint64 {
	data, at := i.bytes(ctx, argument)
	from, to := i.status(wordFirst), i.status(wordSecond)
	if from < 0 || to < from || int(to) > len(data) {
		return 0
	}
	return must(i.newString.do(ctx, uint64(at)+uint64(from), uint64(to-from)))
}

func encodeText(ctx context.Context, i *Isolate, argument uint32) uint64 {
	var text []byte
	pointer := i.borrowText(ctx, argument, &text)
	if pointer == 0 {
		return 0
	}
	box := must(i.newBytes.do(ctx, pointer, uint64(len(text))))
	must(i.freeUTF8.do(ctx, pointer))
	return box
}

func findTool(ctx context.Context, i *Isolate, argument uint32) uint64 {
	if i.run == nil || i.run.port.Find == nil {
		return 0
	}
	var path []byte
	pointer := i.borrowText(ctx, argument, &path)
	if pointer == 0 {
		return 0
	}
	found := i.run.port.Find(string(path))
	must(i.freeUTF8.do(ctx, pointer))
	if len(found) == 0 {
		return 0
	}
	return must(i.newGuestValue(ctx, found, &i.newString))
}

// fulfilled is QuickJS's code for the state of a fulfilled promise.
const fulfilled = 1

// settledValue returns the value of a promise that is fulfilled while no job is pending. So a
// program that waits for nothing skips the jobs of its own promise.
func settledValue(ctx context.Context, i *Isolate, argument uint32) uint64 {
	if uint32(must(i.pending.do(ctx))) != 0 || int32(must(i.promiseState.do(ctx, uint64(argument)))) != fulfilled {
		return 0
	}
	i.setStatus(wordFirst, 1)
	return must(i.promiseResult.do(ctx, uint64(argument)))
}

// fillRandom fills data with random bytes. They come from the run's seed if it has one.
func (i *Isolate) fillRandom(data []byte) {
	if i.run != nil && i.run.seededRand != nil {
		_, _ = i.run.seededRand.Read(data) // documented to never fail
		return
	}
	_, _ = rand.Read(data) // neither does this one
}

// maxRandom is how many random bytes a program can get at once, as in Web Crypto.
const maxRandom = 1 << 16

func randomBytes(ctx context.Context, i *Isolate, _ uint32) uint64 {
	n := i.status(wordFirst)
	if n < 0 || n > maxRandom {
		return 0
	}
	data := make([]byte, n)
	i.fillRandom(data)
	return must(i.newGuestValue(ctx, data, &i.newBytes))
}

// awaitFrame blocks the guest until there is a frame, for calls that read like
// synchronous ones.
func awaitFrame(ctx context.Context, i *Isolate, _ uint32) uint64 {
	r := i.run
	if r == nil {
		return 0
	}
	frame, ok := r.port.Inbox.Wait(r.ctx, time.Until(r.deadline))
	if !ok {
		r.interrupt = max(r.endReason(0), TimedOut)
		panic(&stopError{r.interrupt})
	}
	return must(i.passFrame(ctx, frame))
}

// passFrame passes a frame to the guest: its kind and id in the status, its body in
// the box that it returns.
func (i *Isolate) passFrame(ctx context.Context, f Frame) (uint64, error) {
	i.setStatus(wordFirst, f.Kind)
	i.setStatus(wordSecond, f.ID)
	if f.Text {
		return i.newGuestValue(ctx, f.Body, &i.newString)
	}
	return i.newGuestValue(ctx, f.Body, &i.newBytes)
}

// newGuestValue creates a value in the guest from bytes, which the engine copies.
func (i *Isolate) newGuestValue(ctx context.Context, data []byte, as *function) (uint64, error) {
	memory, at := i.Module.Memory(), uint64(i.machine.layout.room)
	large := len(data) > bufferSize
	if large {
		var err error
		if at, err = i.malloc.do(ctx, uint64(len(data))); err != nil {
			return 0, err
		}
	}
	if at == 0 || !memory.Write(uint32(at), data) {
		return 0, errNoMemory
	}
	box, err := as.do(ctx, at, uint64(len(data)))
	if err == nil && large {
		_, err = i.free.do(ctx, at)
	}
	return box, err
}

// offerHost instantiates the modules that QuickJS imports: the host functions, a
// clock, and no files.
func offerHost(ctx context.Context, r wazero.Runtime) error {
	i32, i64 := api.ValueTypeI32, api.ValueTypeI64
	fill := func(result uint64) api.GoModuleFunc {
		return func(_ context.Context, _ api.Module, stack []uint64) { stack[0] = result }
	}
	const badFile = 8 // errno badf
	for _, module := range []struct {
		name      string
		functions []hostFunction
	}{
		{"env", []hostFunction{
			{"host_get_timezone_offset", fill(0), []api.ValueType{i32, i32}, []api.ValueType{i32}},
			{"host_interrupt", interrupt, nil, []api.ValueType{i32}},
			{"host_promise_rejection", func(context.Context, api.Module, []uint64) {}, []api.ValueType{i32, i32, i32}, nil},
			{"host_module_normalize", fill(0), []api.ValueType{i32, i32}, []api.ValueType{i32}},
			{"host_module_load", fill(0), []api.ValueType{i32, i32}, []api.ValueType{i32}},
			{"host_call", hostCall, []api.ValueType{i32, i32, i32, i32, i32}, []api.ValueType{i32}},
		}},
		{"wasi_snapshot_preview1", []hostFunction{
			{"clock_time_get", clock, []api.ValueType{i32, i64, i32}, []api.ValueType{i32}},
			{"fd_close", fill(badFile), []api.ValueType{i32}, []api.ValueType{i32}},
			{"fd_fdstat_get", fill(badFile), []api.ValueType{i32, i32}, []api.ValueType{i32}},
			{"fd_seek", fill(badFile), []api.ValueType{i32, i64, i32, i32}, []api.ValueType{i32}},
			{"fd_write", fill(badFile), []api.ValueType{i32, i32, i32, i32}, []api.ValueType{i32}},
			{"random_get", randomGet, []api.ValueType{i32, i32}, []api.ValueType{i32}},
		}},
	} {
		b := r.NewHostModuleBuilder(module.name)
		for _, f := range module.functions {
			b.NewFunctionBuilder().WithGoModuleFunction(f.do, f.params, f.results).Export(f.name)
		}
		if _, err := b.Instantiate(ctx); err != nil {
			return fmt.Errorf("offer %s: %w", module.name, err)
		}
	}
	return nil
}

type hostFunction struct {
	name            string
	do              api.GoModuleFunc
	params, results []api.ValueType
}

// clock returns the time. While the engine starts, the time does not change and nothing is
// random, so that every machine of a build has the same image. Each run has its own clock and
// seed.
func clock(ctx context.Context, module api.Module, stack []uint64) {
	var now uint64
	if wasm.IsolateOf[*Isolate](ctx).run != nil {
		now = uint64(time.Now().UnixNano())
	}
	module.Memory().WriteUint64Le(uint32(stack[2]), now)
	stack[0] = 0
}

func randomGet(ctx context.Context, module api.Module, stack []uint64) {
	view, ok := module.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	if ok && wasm.IsolateOf[*Isolate](ctx).run == nil {
		clear(view)
	} else if ok {
		wasm.IsolateOf[*Isolate](ctx).fillRandom(view)
	}
	stack[0] = 0
}
