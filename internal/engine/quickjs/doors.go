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

// The words of the prelude's status, an Int32Array. The guest writes them, so
// they are believed no further than that they are numbers.
const (
	wordQuestions = iota // frames out that await a result
	wordTimer            // milliseconds until a timer is due, -1 if none is set
	wordFirst            // arguments of a door, and what a delivery is of
	wordSecond
	wordThird
	words
)

// status reads a word that the prelude wrote.
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

// patience is how long after the interrupt the guest may go on, for example in
// one long operation that does not look for interrupts.
const patience = 10 * time.Millisecond

// why tells whether the run must end now.
func (r *run) why(extra time.Duration) End {
	switch {
	case r.finished: // what goes on after its last frame
		return Cancelled
	case r.port.Inbox.Cancelled() || r.ctx.Err() != nil:
		return Cancelled
	case time.Now().After(r.deadline.Add(extra)):
		return TimedOut
	case r.cpu.Over():
		return OutOfCPU
	}
	return Finished
}

// tick is called when fuel is used up.
func (i *Isolate) tick() {
	if i.run == nil {
		return // the machine starts
	}
	i.run.port.Inbox.Computing()
	over := i.run.cpu.Over() // before: it was interrupted, and goes on
	i.run.cpu.Look()
	if i.run.interrupt == Finished {
		// QuickJS asks for interrupts itself and unwinds cleanly; this is for
		// what it does without asking.
		if end := i.run.why(patience); end != Finished && (end != OutOfCPU || over) {
			panic(&stopError{end})
		}
	} else if time.Now().After(i.run.deadline.Add(patience)) || i.run.interrupt == Cancelled || over {
		panic(&stopError{i.run.interrupt})
	}
}

// interrupt is QuickJS's own question, asked every few thousand steps. What
// it throws cannot be caught by the guest.
func interrupt(ctx context.Context, _ api.Module, stack []uint64) {
	i := wasm.Of[*Isolate](ctx)
	stack[0] = 0
	if i.run == nil {
		return
	}
	if end := i.run.why(0); end != Finished {
		i.run.interrupt = end
		stack[0] = 1
	}
}

// door is a function that the prelude may call. It returns a box of the
// guest, 0 for undefined.
type door func(ctx context.Context, i *Isolate, argument uint32) uint64

// doors are told apart by their names.
var doors = [...]struct {
	name string
	open door
}{
	{"send", send},       // (string or Uint8Array): the body of a frame, of bytes the first [first]; [second] is its kind, [third] its id
	{"text", text},       // (Uint8Array): the string of its bytes [first] to [second]
	{"encoded", encoded}, // (string): its UTF-8 as Uint8Array
	{"random", random},   // (): a Uint8Array of [first] random bytes
	{"tool", tool},       // (string): the JSON of what a path leads to, undefined if nothing
	{"settled", settled}, // (promise): its value, and [first] set, when it is fulfilled and no job of another waits
	{"await", await},     // (): waits for a frame, gives its body; [first] is its kind, [second] its id
}

func hostCall(ctx context.Context, module api.Module, stack []uint64) {
	name, count, argv := uint32(stack[0]), uint32(stack[3]), uint32(stack[4])
	length := uint32(stack[1])
	i := wasm.Of[*Isolate](ctx)
	stack[0] = 0
	text, ok := module.Memory().Read(name, length)
	if !ok {
		panic(errLayout)
	}
	for _, d := range doors {
		if d.name != string(text) {
			continue
		}
		var argument uint32
		if count > 0 {
			argument, _ = module.Memory().ReadUint32Le(argv)
		}
		box := d.open(ctx, i, argument)
		if box == 0 {
			box = must(i.undefined.do(ctx))
		}
		stack[0] = box
		return
	}
	panic(errLayout)
}

// must ends the execution when an engine function that a door uses has failed.
func must(value uint64, err error) uint64 {
	if err != nil {
		panic(err)
	}
	return value
}

// bytes are those of a Uint8Array of the guest, and where they lie. They are
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

func send(ctx context.Context, i *Isolate, argument uint32) uint64 {
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

// borrowText gives the UTF-8 of a string of the guest, to be given back by its
// pointer; 0 when the value is no string. Of an object this would call methods
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

func text(ctx context.Context, i *Isolate, argument uint32) uint64 {
	data, at := i.bytes(ctx, argument)
	from, to := i.status(wordFirst), i.status(wordSecond)
	if from < 0 || to < from || int(to) > len(data) {
		return 0
	}
	return must(i.newString.do(ctx, uint64(at)+uint64(from), uint64(to-from)))
}

func encoded(ctx context.Context, i *Isolate, argument uint32) uint64 {
	var text []byte
	pointer := i.borrowText(ctx, argument, &text)
	if pointer == 0 {
		return 0
	}
	box := must(i.newBytes.do(ctx, pointer, uint64(len(text))))
	must(i.freeUTF8.do(ctx, pointer))
	return box
}

func tool(ctx context.Context, i *Isolate, argument uint32) uint64 {
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
	return must(i.give(ctx, found, &i.newString))
}

// fulfilled is QuickJS's word for the state of such a promise.
const fulfilled = 1

// settled spares a program that waited for nothing the jobs of its own promise.
func settled(ctx context.Context, i *Isolate, argument uint32) uint64 {
	if uint32(must(i.pending.do(ctx))) != 0 || int32(must(i.promiseState.do(ctx, uint64(argument)))) != fulfilled {
		return 0
	}
	i.setStatus(wordFirst, 1)
	return must(i.promiseResult.do(ctx, uint64(argument)))
}

// random fills data with random bytes: those of the run's seed, if it has one.
func (i *Isolate) random(data []byte) {
	if i.run != nil && i.run.seeded != nil {
		_, _ = i.run.seeded.Read(data) // never fails, says its documentation
		return
	}
	_, _ = rand.Read(data) // neither does this
}

// maxRandom is how many random bytes a program gets at once, as in Web Crypto.
const maxRandom = 1 << 16

func random(ctx context.Context, i *Isolate, _ uint32) uint64 {
	n := i.status(wordFirst)
	if n < 0 || n > maxRandom {
		return 0
	}
	data := make([]byte, n)
	i.random(data)
	return must(i.give(ctx, data, &i.newBytes))
}

// await waits for a frame while the guest stands still, for calls that read
// like synchronous ones.
func await(ctx context.Context, i *Isolate, _ uint32) uint64 {
	r := i.run
	if r == nil {
		return 0
	}
	frame, ok := r.port.Inbox.Wait(r.ctx, time.Until(r.deadline))
	if !ok {
		r.interrupt = max(r.why(0), TimedOut)
		panic(&stopError{r.interrupt})
	}
	return must(i.giveFrame(ctx, frame))
}

// giveFrame hands a frame over: its kind and id in the status, its body as
// the box that it returns.
func (i *Isolate) giveFrame(ctx context.Context, f Frame) (uint64, error) {
	i.setStatus(wordFirst, f.Kind)
	i.setStatus(wordSecond, f.ID)
	if f.Text {
		return i.give(ctx, f.Body, &i.newString)
	}
	return i.give(ctx, f.Body, &i.newBytes)
}

// give makes a value in the guest from bytes, which the engine copies.
func (i *Isolate) give(ctx context.Context, data []byte, as *function) (uint64, error) {
	memory, at := i.Module.Memory(), uint64(i.machine.layout.room)
	large := len(data) > roomSize
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

// offerHost gives QuickJS what it imports: the doors, a clock, nothing
// of files.
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

// While the engine starts, time stands still and nothing is random, so that
// every machine of a build has the same image. Runs draw their own.
func clock(ctx context.Context, module api.Module, stack []uint64) {
	var now uint64
	if wasm.Of[*Isolate](ctx).run != nil {
		now = uint64(time.Now().UnixNano())
	}
	module.Memory().WriteUint64Le(uint32(stack[2]), now)
	stack[0] = 0
}

func randomGet(ctx context.Context, module api.Module, stack []uint64) {
	view, ok := module.Memory().Read(uint32(stack[0]), uint32(stack[1]))
	if ok && wasm.Of[*Isolate](ctx).run == nil {
		clear(view)
	} else if ok {
		wasm.Of[*Isolate](ctx).random(view)
	}
	stack[0] = 0
}
