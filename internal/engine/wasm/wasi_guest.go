package wasm

import (
	"encoding/binary"

	"github.com/tetratelabs/wazero/api"
)

// guest is the caller of a WASI function, with the arguments of the call.
type guest struct {
	System
	memory api.Memory
	args   []uint64
}

func (g *guest) word(n int) uint32 { return uint32(g.args[n]) }

// vectors calls do with each piece of memory of an iovec array, until do takes less
// than a piece. It returns the number of bytes taken.
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

func (g *guest) writeWord(at, value uint32) errno {
	if !g.memory.WriteUint32Le(at, value) {
		return invalid
	}
	return success
}

// read is fd_read.
func (g *guest) read() errno {
	fd := g.word(0)
	stream := g.Stream(fd)
	if stream&Readable == 0 {
		return badFile
	}
	if stream&Live != 0 {
		atMost := MaxWait
		if !g.Blocks() {
			atMost = 0
		}
		if !g.Await(atMost) && atMost == 0 {
			return again
		}
	}
	n, e := g.vectors(g.word(1), g.word(2), func(to []byte) int { return g.Read(fd, to) })
	if e != success {
		return e
	}
	return g.writeWord(g.word(3), n)
}

// write is fd_write.
func (g *guest) write() errno {
	fd := g.word(0)
	if g.Stream(fd)&Writable == 0 {
		return badFile
	}
	n, e := g.vectors(g.word(1), g.word(2), func(data []byte) int { return g.Write(fd, data) })
	if e != success {
		return e
	}
	return g.writeWord(g.word(3), n)
}

func (g *guest) clock() errno {
	if g.word(0) > 3 || !g.memory.WriteUint64Le(g.word(2), g.Now(g.word(0))) {
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
	g.Random(view)
	return success
}

// nonblock is the flag of a descriptor whose reads do not block (type fdflags).
const nonblock = 1 << 2

// stat is fd_fdstat_get and fd_filestat_get: all descriptors are streams.
func (g *guest) stat(size uint32, typeAt int) errno {
	stream := g.Stream(g.word(0))
	view, ok := g.memory.Read(g.word(1), size)
	switch {
	case stream == 0:
		return badFile
	case !ok:
		return invalid
	}
	clear(view)
	const socket = 6 // filetype socket_stream
	view[typeAt] = socket
	if typeAt == 0 { // fdstat: all rights there are
		binary.LittleEndian.PutUint64(view[8:], 1<<30-1)
		if stream&Live != 0 && !g.Blocks() {
			view[2] = nonblock
		}
	}
	return success
}

func (g *guest) setFlags() errno {
	stream := g.Stream(g.word(0))
	if stream == 0 {
		return badFile
	}
	if stream&Live != 0 {
		g.SetBlocks(g.word(1)&nonblock == 0)
	}
	return success
}

// sizes answers args_sizes_get and environ_sizes_get.
func (g *guest) sizes(list []string) errno {
	total := 0
	for _, text := range list {
		total += len(text) + 1
	}
	if e := g.writeWord(g.word(0), uint32(len(list))); e != success {
		return e
	}
	return g.writeWord(g.word(1), uint32(total))
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
