package wasm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// WASIModule is the name of the module that [OfferWASI] instantiates.
const WASIModule = "wasi_snapshot_preview1"

// System implements the calls of one guest of WASI preview 1, which is for programs
// without files, sockets and other processes: they have streams, variables, a clock and
// random numbers. Every function of the standard exists; those for missing things return
// the error that the standard defines. A method may end the guest by a panic.
type System interface {
	// Arguments returns the program's arguments, its name first.
	Arguments() []string
	// Environment returns the environment variables, as KEY=VALUE.
	Environment() []string
	// Stream returns the use of a descriptor, 0 if it is not open.
	Stream(fd uint32) Stream
	// Blocks reports whether a read of a [Live] descriptor blocks if there are no
	// bytes, and SetBlocks sets that.
	Blocks() bool
	SetBlocks(blocks bool)
	// Await waits for bytes of a live descriptor, or for a time, and reports whether
	// there are bytes.
	Await(atMost time.Duration) bool
	// Read reads the available bytes of a descriptor, and returns their number.
	Read(fd uint32, to []byte) int
	// Write writes bytes, and returns how many.
	Write(fd uint32, data []byte) int
	// Sleep waits for a time.
	Sleep(d time.Duration)
	// Now returns a clock's time in nanoseconds: 0 is the wall clock, 1 the monotonic
	// clock, 2 and 3 the processor time of the process and of its thread.
	Now(clock uint32) uint64
	// Random fills bytes.
	Random([]byte)
}

// Stream is the use of an open descriptor.
type Stream uint8

// The uses of a descriptor. One descriptor of a system may be live: its bytes arrive
// from outside, at any time.
const (
	Readable Stream = 1 << iota
	Writable
	Live
)

// MaxWait is the time that a guest waits if it sets no time. The run ends earlier.
const MaxWait = 24 * 365 * time.Hour

// ExitError is the error of the execution of a guest that has exited.
type ExitError struct{ Code uint32 }

func (e *ExitError) Error() string { return fmt.Sprintf("it ended with exit code %d", e.Code) }

// errno is an error number (type errno).
type errno uint32

// The error numbers used here.
const (
	success     errno = 0
	again       errno = 6
	badFile     errno = 8
	invalid     errno = 28
	unsupported errno = 58
	noSeek      errno = 70
)

// wasiFunction is a function of WASI preview 1.
type wasiFunction struct {
	name   string
	do     func(*guest) errno
	params []api.ValueType
}

// wasiFunctions holds all functions except proc_exit.
func wasiFunctions() []wasiFunction {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	always := func(e errno) func(*guest) errno { return func(*guest) errno { return e } }
	file := always(badFile)
	return []wasiFunction{
		{"args_get", func(g *guest) errno { return g.strings(g.Arguments()) }, i32s(2)},
		{"args_sizes_get", func(g *guest) errno { return g.sizes(g.Arguments()) }, i32s(2)},
		{"environ_get", func(g *guest) errno { return g.strings(g.Environment()) }, i32s(2)},
		{"environ_sizes_get", func(g *guest) errno { return g.sizes(g.Environment()) }, i32s(2)},
		{"clock_res_get", (*guest).resolution, i32s(2)},
		{"clock_time_get", (*guest).clock, []api.ValueType{i32, i64, i32}},
		{"fd_read", (*guest).read, i32s(4)},
		{"fd_write", (*guest).write, i32s(4)},
		{"fd_fdstat_get", func(g *guest) errno { return g.stat(24, 0) }, i32s(2)},
		{"fd_filestat_get", func(g *guest) errno { return g.stat(64, 16) }, i32s(2)},
		{"fd_fdstat_set_flags", (*guest).setFlags, i32s(2)},
		{"fd_fdstat_set_rights", file, []api.ValueType{i32, i64, i64}},
		{"fd_seek", always(noSeek), []api.ValueType{i32, i64, i32, i32}},
		{"fd_tell", always(noSeek), i32s(2)},
		{"fd_prestat_get", file, i32s(2)},
		{"fd_prestat_dir_name", file, i32s(3)},
		{"fd_advise", file, []api.ValueType{i32, i64, i64, i32}},
		{"fd_allocate", file, []api.ValueType{i32, i64, i64}},
		{"fd_close", file, i32s(1)},
		{"fd_datasync", file, i32s(1)},
		{"fd_filestat_set_size", file, []api.ValueType{i32, i64}},
		{"fd_filestat_set_times", file, []api.ValueType{i32, i64, i64, i32}},
		{"fd_pread", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_pwrite", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_readdir", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_renumber", file, i32s(2)},
		{"fd_sync", file, i32s(1)},
		{"path_create_directory", file, i32s(3)},
		{"path_filestat_get", file, i32s(5)},
		{"path_filestat_set_times", file, []api.ValueType{i32, i32, i32, i32, i64, i64, i32}},
		{"path_link", file, i32s(7)},
		{"path_open", file, []api.ValueType{i32, i32, i32, i32, i32, i64, i64, i32, i32}},
		{"path_readlink", file, i32s(6)},
		{"path_remove_directory", file, i32s(3)},
		{"path_rename", file, i32s(6)},
		{"path_symlink", file, i32s(5)},
		{"path_unlink_file", file, i32s(3)},
		{"poll_oneoff", (*guest).poll, i32s(4)},
		{"proc_raise", always(unsupported), i32s(1)},
		{"sched_yield", always(success), nil},
		{"random_get", (*guest).random, i32s(2)},
		{"sock_accept", always(unsupported), i32s(3)},
		{"sock_recv", always(unsupported), i32s(6)},
		{"sock_send", always(unsupported), i32s(5)},
		{"sock_shutdown", always(unsupported), i32s(2)},
	}
}

func i32s(n int) []api.ValueType {
	list := make([]api.ValueType, n)
	for i := range list {
		list[i] = api.ValueTypeI32
	}
	return list
}

// HasWASI reports whether WASI preview 1 has a function of this name and type.
func HasWASI(f api.FunctionDefinition) bool {
	_, name, _ := f.Import()
	if name == exit {
		return slices.Equal(f.ParamTypes(), i32s(1)) && len(f.ResultTypes()) == 0
	}
	return slices.Equal(f.ResultTypes(), i32s(1)) && slices.ContainsFunc(wasiFunctions(), func(c wasiFunction) bool {
		return c.name == name && slices.Equal(c.params, f.ParamTypes())
	})
}

// exit is the function proc_exit, which ends its caller.
const exit = "proc_exit"

// OfferWASI instantiates WASI in a runtime. The function of returns the system of the calling
// guest, from the context of the call.
func OfferWASI(ctx context.Context, r wazero.Runtime, of func(context.Context) System) error {
	b := r.NewHostModuleBuilder(WASIModule)
	for _, c := range wasiFunctions() {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, module api.Module, stack []uint64) {
			g := &guest{of(ctx), module.Memory(), stack}
			stack[0] = uint64(c.do(g))
		}), c.params, i32s(1)).Export(c.name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) {
		panic(&ExitError{uint32(stack[0])})
	}), i32s(1), nil).Export(exit)
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("instantiate WASI: %w", err)
	}
	return nil
}
