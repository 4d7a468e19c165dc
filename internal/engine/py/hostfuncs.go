package py

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
)

// stopError ends the execution of an isolate from within.
type stopError struct{}

func (stopError) Error() string { return "stopped" }

// tick is called when the fuel is used up.
func (i *Isolate) tick() {
	// After the last frame the guest may use one more refill of fuel to return.
	if r := i.run; r != nil && (r.finished || r.cpu.Check() || r.stopped()) {
		panic(stopError{})
	}
}

// hostFunctions implements the system of an isolate. Descriptor 0 is the bridge,
// whose reads block. 1 and 2 are the output of the interpreter itself, or of a
// program that writes to them directly.
type hostFunctions struct{ *Isolate }

// Environment implements [wasm.System].
func (hostFunctions) Environment() []string { return nil }

// Arguments implements [wasm.System].
func (hostFunctions) Arguments() []string { return arguments }

// Stream implements [wasm.System].
func (d hostFunctions) Stream(fd uint32) wasm.Stream {
	switch {
	case fd > 2:
		return 0
	case fd > 0:
		return wasm.Writable
	case d.run == nil:
		return wasm.Readable | wasm.Writable
	}
	return wasm.Readable | wasm.Writable | wasm.Live
}

// Blocks implements [wasm.System].
func (hostFunctions) Blocks() bool { return true }

// SetBlocks implements [wasm.System]: reads always block.
func (hostFunctions) SetBlocks(bool) {}

// Await waits for bytes from the server, or for a time. It ends a run that was
// stopped.
func (d hostFunctions) Await(atMost time.Duration) bool {
	r := d.run
	ready := r.waitForBytes(atMost)
	if r.stopped() {
		panic(stopError{})
	}
	return ready
}

// Sleep waits for a time, even if bytes arrive, which stay for later.
func (d hostFunctions) Sleep(wait time.Duration) {
	r := d.run
	if r == nil {
		return
	}
	r.port.Inbox.Sleep(r.ctx, wait)
	if r.stopped() {
		panic(stopError{})
	}
}

// Read implements [wasm.System].
func (d hostFunctions) Read(_ uint32, to []byte) int {
	switch {
	case d.booting != nil:
		return d.booting.read(to)
	case d.run != nil:
		return d.run.read(to)
	}
	return 0
}

// Write takes all of the data, or none of a refused frame.
func (d hostFunctions) Write(fd uint32, data []byte) int {
	if d.booting != nil {
		d.booting.write(fd, data)
	}
	r := d.run
	if r == nil || r.finished {
		return len(data)
	}
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
		d.Refuel()
	}
	return len(data)
}

// send forwards the complete frames that the guest has written.
func (r *run) send(data []byte) error {
	r.partial = append(r.partial, data...)
	for len(r.partial) >= 4 && !r.finished {
		size := binary.BigEndian.Uint32(r.partial)
		if size > bridge.MaxFrame {
			return fmt.Errorf("a frame has %d bytes, more than the limit of %d", size, bridge.MaxFrame)
		}
		if uint32(len(r.partial)-4) < size {
			return nil
		}
		last, err := r.port.Send(r.partial[4:][:size])
		r.partial = append(r.partial[:0], r.partial[4+size:]...)
		if err != nil {
			return err
		}
		r.finished = last
	}
	return nil
}

// Now implements [wasm.System]. While the machine starts, time stands still and
// nothing is random, so that every machine of a build has the same image.
func (d hostFunctions) Now(clock uint32) uint64 {
	if d.booting != nil {
		d.booting.freeze()
	}
	r := d.run
	switch {
	case r == nil:
		return 0
	case clock > 1:
		return uint64(time.Since(r.started))
	}
	return uint64(time.Now().UnixNano())
}

// Random implements [wasm.System].
func (d hostFunctions) Random(view []byte) {
	if d.run == nil {
		clear(view)
		return
	}
	for piece := range slices.Chunk(view, 1<<20) {
		d.tick()                // this work uses no fuel
		_, _ = rand.Read(piece) // documented to never fail
	}
}
