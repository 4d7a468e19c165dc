package quickjs

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// bufferSize is how many bytes Go can pass to the guest without allocating memory in it.
const bufferSize = 64 << 10

// layout holds what the machine needs in every copy of the image, as addresses in
// linear memory.
type layout struct {
	context   uint32 // QuickJS's JSContext
	deliver   uint32 // box: the prelude's function
	undefined uint32 // box
	null      uint32 // box
	status    uint32 // the words of the prelude's status
	room      uint32 // bufferSize bytes
	scratch   uint32 // some words for results of engine functions
	arguments uint32 // the argument list of deliver
}

// boot starts QuickJS in the first isolate and runs the prelude.
func (i *Isolate) boot(ctx context.Context, prelude string) (layout, error) {
	b := &bootCaller{isolate: i, ctx: wasm.WithIsolate(ctx, i)}
	b.do("_initialize")
	if b.err == nil && int32(b.do("qjs_init")) != 0 {
		b.err = errors.New("qjs_init failed")
	}
	b.do("qjs_set_max_stack_size", stackSize)
	b.do("qjs_set_interrupt_handler", 1)

	l := layout{
		context:   uint32(b.do("qjs_get_context_ptr")),
		undefined: uint32(b.do("qjs_get_undefined")),
		null:      uint32(b.do("qjs_get_null")),
		room:      uint32(b.do("wasm_malloc", bufferSize)),
		scratch:   uint32(b.do("wasm_malloc", 16)),
		arguments: uint32(b.do("wasm_malloc", 16)),
	}
	i.machine.layout = l // the host functions need it while the prelude runs

	global := b.do("qjs_get_global")
	offered := b.do("qjs_new_object")
	for _, d := range preludeFunctions {
		function := b.do("qjs_new_host_function", b.text(d.name), uint64(len(d.name)), 0)
		b.do("qjs_set_prop_string", offered, b.text(d.name), function)
	}
	b.do("qjs_set_prop_string", global, b.text("__hostFunctions"), offered)
	b.eval(prelude)
	l.deliver = uint32(b.do("qjs_get_prop_string", offered, b.text("deliver")))
	status := b.do("qjs_get_prop_string", offered, b.text("status"))
	l.status = b.statusAddress(status)
	b.eval("delete globalThis.__hostFunctions")

	for b.err == nil && uint32(b.do("qjs_is_job_pending")) != 0 {
		b.do("qjs_execute_pending_job")
	}
	b.do("wasm_free", b.do("wasm_malloc", slack))
	b.do("qjs_run_gc")
	i.machine.layout = layout{}
	return l, b.err
}

// bootCaller calls functions of the engine by name. After the first error it calls no more.
type bootCaller struct {
	isolate *Isolate
	ctx     context.Context
	err     error
}

func (b *bootCaller) do(name string, args ...uint64) uint64 {
	if b.err != nil {
		return 0
	}
	results, err := b.isolate.Module.ExportedFunction(name).Call(b.ctx, args...)
	if err != nil {
		b.err = fmt.Errorf("%s: %w", name, err)
	}
	if len(results) == 0 {
		return 0
	}
	return results[0]
}

// text copies a string into the guest, followed by a zero byte.
func (b *bootCaller) text(s string) uint64 {
	at := b.do("wasm_malloc", uint64(len(s))+1)
	if b.err == nil && (at == 0 || !b.isolate.Module.Memory().Write(uint32(at), append([]byte(s), 0))) {
		b.err = errNoMemory
	}
	return at
}

func (b *bootCaller) eval(source string) {
	result := b.do("qjs_eval", b.text(source), uint64(len(source)), b.text("toolroom:prelude"), 0)
	if b.err == nil && uint32(b.do("qjs_is_exception", result)) != 0 {
		b.err = fmt.Errorf("the prelude failed: %s", b.string(b.do("qjs_get_exception")))
	}
}

func (b *bootCaller) string(box uint64) string {
	at := b.do("qjs_get_string", box)
	var text []byte
	for b.err == nil && len(text) < 1000 {
		c, ok := b.isolate.Module.Memory().ReadByte(uint32(at) + uint32(len(text)))
		if !ok || c == 0 {
			break
		}
		text = append(text, c)
	}
	return string(text)
}

// statusAddress returns the address of the data of the prelude's status.
func (b *bootCaller) statusAddress(box uint64) uint32 {
	memory := b.isolate.Module.Memory()
	buffer := b.do("qjs_get_prop_string", box, b.text("buffer"))
	at := b.do("wasm_malloc", 4)
	data := uint32(b.do("qjs_get_array_buffer", buffer, at))
	size, _ := memory.ReadUint32Le(uint32(at))
	if b.err == nil && (data == 0 || size < 4*words) {
		b.err = errors.New("the prelude left no status")
	}
	return data
}
