package cpython

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// errno is an error number of WASI preview 1.
type errno uint32

// Those that are used here (wasi_snapshot_preview1, type errno).
const (
	success     errno = 0
	badFile     errno = 8
	invalid     errno = 28
	unsupported errno = 58
	noSeek      errno = 70
)

// stopError ends the execution of an isolate from within.
type stopError struct{}

func (stopError) Error() string { return "stopped" }

// exitError says that the interpreter ended itself.
type exitError struct{ code uint32 }

func (e *exitError) Error() string {
	return fmt.Sprintf("the interpreter was ended with exit code %d", e.code)
}

// tick is called when fuel is used up.
func (i *Isolate) tick() {
	// After the last frame one filling of fuel is left, to return.
	if r := i.run; r != nil && (r.finished || r.stopped()) {
		panic(stopError{})
	}
}

// guest is what a system call sees of its caller.
type guest struct {
	*Isolate
	ctx    context.Context
	memory api.Memory
	args   []uint64
}

func (g *guest) word(n int) uint32 { return uint32(g.args[n]) }

// vectors calls do with each piece of memory of an iovec array, until do
// returns less than the piece has. It tells how many bytes were done.
func (g *guest) vectors(at, count uint32, do func([]byte) int) (total uint32, e errno) {
	for n := range count {
		start, ok := g.memory.ReadUint32Le(at + 8*n)
		size, alsoOK := g.memory.ReadUint32Le(at + 8*n + 4)
		piece, there := g.memory.Read(start, size)
		if !ok || !alsoOK || !there {
			return total, invalid
		}
		done := do(piece)
		total += uint32(done)
		if done < len(piece) {
			break
		}
	}
	return total, success
}

func (g *guest) give(at, value uint32) errno {
	if !g.memory.WriteUint32Le(at, value) {
		return invalid
	}
	return success
}

// read is fd_read: descriptor 0 is the bridge, and waits.
func (g *guest) read() errno {
	if g.word(0) != 0 {
		return badFile
	}
	from := func([]byte) int { return 0 }
	if g.booting != nil {
		from = g.booting.read
	} else if r := g.run; r != nil {
		g.await(ever)
		from = r.read
	}
	n, e := g.vectors(g.word(1), g.word(2), from)
	if e != success {
		return e
	}
	return g.give(g.word(3), n)
}

// await waits for bytes from the host, or for a time; a run that was stopped
// ends here.
func (g *guest) await(atMost time.Duration) bool {
	r := g.run
	ready := r.wait(atMost)
	if r.stopped() {
		panic(stopError{})
	}
	return ready
}

// write is fd_write: descriptor 0 is the bridge; 1 and 2 are what the
// interpreter itself says, or the program by way of the system.
func (g *guest) write() errno {
	fd := g.word(0)
	if fd > 2 {
		return badFile
	}
	n, e := g.vectors(g.word(1), g.word(2), func(data []byte) int {
		switch {
		case g.booting != nil:
			g.booting.write(fd, data)
		case g.run != nil && !g.run.finished:
			return g.say(fd, data)
		}
		return len(data)
	})
	if e != success {
		return e
	}
	return g.give(g.word(3), n)
}

// say tells how much of the data is taken: all of it, or nothing of a frame that
// is refused.
func (g *guest) say(fd uint32, data []byte) int {
	r := g.run
	var err error
	switch fd {
	case 0:
		err = r.send(data)
	case 1:
		err = r.port.Print("stdout", data)
	default:
		err = r.port.Print("stderr", data)
	}
	if errors.Is(err, ErrRefused) {
		return 0
	}
	if err != nil {
		r.err = err
		panic(stopError{})
	}
	if r.finished {
		g.Refuel()
	}
	return len(data)
}

// send passes on the frames that the guest writes, whole ones only.
func (r *run) send(data []byte) error {
	r.sent = append(r.sent, data...)
	for len(r.sent) >= 4 && !r.finished {
		size := binary.BigEndian.Uint32(r.sent)
		if size > bridge.DefaultMaxFrame {
			return fmt.Errorf("a frame of %d bytes, the limit is %d", size, bridge.DefaultMaxFrame)
		}
		if uint32(len(r.sent)-4) < size {
			return nil
		}
		last, err := r.port.Send(r.sent[4:][:size])
		r.sent = append(r.sent[:0], r.sent[4+size:]...)
		if err != nil {
			return err
		}
		r.finished = last
	}
	return nil
}

// clock is clock_time_get. While the machine starts time stands still and
// nothing is random, so that every machine of a build has the same image.
func (g *guest) clock() errno {
	if g.booting != nil {
		g.booting.freeze()
	}
	var now uint64
	if r := g.run; r != nil {
		now = uint64(time.Now().UnixNano())
		if id := g.word(0); id == 2 || id == 3 { // of the process, of the thread
			now = uint64(time.Since(r.started))
		}
	}
	if !g.memory.WriteUint64Le(g.word(2), now) {
		return invalid
	}
	return success
}

func (g *guest) resolution() errno {
	if !g.memory.WriteUint64Le(g.word(1), 1) {
		return invalid
	}
	return success
}

func (g *guest) random() errno {
	view, ok := g.memory.Read(g.word(0), g.word(1))
	if !ok {
		return invalid
	}
	if g.run == nil {
		clear(view)
	} else {
		_, _ = rand.Read(view) // never fails, says its documentation
	}
	return success
}

// describe is fd_fdstat_get and fd_filestat_get: the three descriptors are
// streams.
func (g *guest) describe(size uint32, typeAt int) errno {
	view, ok := g.memory.Read(g.word(1), size)
	switch {
	case g.word(0) > 2:
		return badFile
	case !ok:
		return invalid
	}
	clear(view)
	const stream = 6 // filetype socket_stream
	view[typeAt] = stream
	if typeAt == 0 { // fdstat: all rights there are
		binary.LittleEndian.PutUint64(view[8:], 1<<30-1)
	}
	return success
}

// lists answers args_sizes_get and environ_sizes_get.
func (g *guest) sizes(list []string) errno {
	total := 0
	for _, text := range list {
		total += len(text) + 1
	}
	if e := g.give(g.word(0), uint32(len(list))); e != success {
		return e
	}
	return g.give(g.word(1), uint32(total))
}

// strings answers args_get and environ_get.
func (g *guest) strings(list []string) errno {
	pointers, at := g.word(0), g.word(1)
	for _, text := range list {
		if !g.memory.WriteUint32Le(pointers, at) || !g.memory.Write(at, append([]byte(text), 0)) {
			return invalid
		}
		pointers, at = pointers+4, at+uint32(len(text))+1
	}
	return success
}

// offerHost gives CPython what it imports: the bridge as descriptor 0, a
// clock, nothing of files, sockets or other processes.
func offerHost(ctx context.Context, r wazero.Runtime) error {
	const i32, i64 = api.ValueTypeI32, api.ValueTypeI64
	always := func(e errno) func(*guest) errno { return func(*guest) errno { return e } }
	type call struct {
		name   string
		do     func(*guest) errno
		params []api.ValueType
	}
	file := always(badFile)
	words := func(n int) []api.ValueType {
		list := make([]api.ValueType, n)
		for i := range list {
			list[i] = i32
		}
		return list
	}
	b := r.NewHostModuleBuilder("wasi_snapshot_preview1")
	for _, c := range []call{
		{"args_get", func(g *guest) errno { return g.strings(arguments) }, words(2)},
		{"args_sizes_get", func(g *guest) errno { return g.sizes(arguments) }, words(2)},
		{"environ_get", func(g *guest) errno { return g.strings(nil) }, words(2)},
		{"environ_sizes_get", func(g *guest) errno { return g.sizes(nil) }, words(2)},
		{"clock_res_get", (*guest).resolution, words(2)},
		{"clock_time_get", (*guest).clock, []api.ValueType{i32, i64, i32}},
		{"fd_read", (*guest).read, words(4)},
		{"fd_write", (*guest).write, words(4)},
		{"fd_fdstat_get", func(g *guest) errno { return g.describe(24, 0) }, words(2)},
		{"fd_filestat_get", func(g *guest) errno { return g.describe(64, 16) }, words(2)},
		{"fd_fdstat_set_flags", always(success), words(2)},
		{"fd_seek", always(noSeek), []api.ValueType{i32, i64, i32, i32}},
		{"fd_tell", always(noSeek), words(2)},
		{"fd_prestat_get", file, words(2)},
		{"fd_prestat_dir_name", file, words(3)},
		{"fd_advise", file, []api.ValueType{i32, i64, i64, i32}},
		{"fd_allocate", file, []api.ValueType{i32, i64, i64}},
		{"fd_close", file, words(1)},
		{"fd_datasync", file, words(1)},
		{"fd_filestat_set_size", file, []api.ValueType{i32, i64}},
		{"fd_filestat_set_times", file, []api.ValueType{i32, i64, i64, i32}},
		{"fd_pread", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_pwrite", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_readdir", file, []api.ValueType{i32, i32, i32, i64, i32}},
		{"fd_sync", file, words(1)},
		{"path_create_directory", file, words(3)},
		{"path_filestat_get", file, words(5)},
		{"path_filestat_set_times", file, []api.ValueType{i32, i32, i32, i32, i64, i64, i32}},
		{"path_link", file, words(7)},
		{"path_open", file, []api.ValueType{i32, i32, i32, i32, i32, i64, i64, i32, i32}},
		{"path_readlink", file, words(6)},
		{"path_remove_directory", file, words(3)},
		{"path_rename", file, words(6)},
		{"path_symlink", file, words(5)},
		{"path_unlink_file", file, words(3)},
		{"poll_oneoff", (*guest).poll, words(4)},
		{"sched_yield", always(success), nil},
		{"random_get", (*guest).random, words(2)},
		{"sock_accept", always(unsupported), words(3)},
		{"sock_recv", always(unsupported), words(6)},
		{"sock_send", always(unsupported), words(5)},
		{"sock_shutdown", always(unsupported), words(2)},
	} {
		b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(ctx context.Context, module api.Module, stack []uint64) {
			g := &guest{wasm.Of[*Isolate](ctx), ctx, module.Memory(), stack}
			stack[0] = uint64(c.do(g))
		}), c.params, []api.ValueType{i32}).Export(c.name)
	}
	b.NewFunctionBuilder().WithGoModuleFunction(api.GoModuleFunc(func(_ context.Context, _ api.Module, stack []uint64) {
		panic(&exitError{uint32(stack[0])})
	}), words(1), nil).Export("proc_exit")
	if _, err := b.Instantiate(ctx); err != nil {
		return fmt.Errorf("offer WASI: %w", err)
	}
	return nil
}
