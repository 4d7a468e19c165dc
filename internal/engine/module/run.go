package module

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/wasm"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// The descriptors of a module.
const (
	stdin = iota
	stdout
	stderr
	bridgeFD // the bridge
)

// errStopped ends the execution of a module from within.
var errStopped = errors.New("stopped")

// run is one run of a module: its [wasm.System].
type run struct {
	ctx    context.Context
	inbox  *wasm.Inbox[[]byte]
	limit  int64 // of memory, in bytes
	memory *wasm.Memory
	cpu    proc.CPUMeter

	arguments  []string
	env        []string
	stdin      *bytes.Reader
	random     io.Reader
	clock      clock
	prints     printer
	bridgeFile *bridgeFile
	nonblock   bool
	workDone   int   // of the work of system calls, what was done since the last look
	err        error // the error of sending to the server
}

// newRun returns the run of a job. It sends frames to the server with tell.
func newRun(ctx context.Context, j job, tell func(bridge.Frame) error) *run {
	p := j.program
	r := &run{
		ctx: ctx, inbox: j.inbox, limit: p.Limits.WithDefaults().Memory,
		arguments: append([]string{p.Name}, p.Command...), env: p.Env, stdin: bytes.NewReader(p.Stdin), random: rand.Reader,
		clock: clock{began: time.Now(), virtual: p.Profile == string(sandbox.Hardened)},
	}
	r.cpu = proc.MeterCPU(time.Duration(p.Limits.CPU) * time.Millisecond)
	if len(p.Seed) > 0 {
		r.random = mathrand.NewChaCha8(sha256.Sum256(p.Seed))
	}
	r.prints.emit = func(body bridge.Map) error {
		return tell(bridge.Frame{Kind: bridge.Print, Token: j.token, Body: body})
	}
	r.bridgeFile = newBridgeFile(j, func(f bridge.Frame) error { return errors.Join(r.prints.end(), tell(f)) })
	return r
}

type runKey struct{}

func runFrom(ctx context.Context) *run { return ctx.Value(runKey{}).(*run) }

func (r *run) stopped() bool { return r.inbox.Cancelled() || r.ctx.Err() != nil }

// checkStopped ends the module if its run was stopped.
func (r *run) checkStopped() {
	if r.stopped() || r.bridgeFile.ended {
		panic(errStopped)
	}
}

// tick is called, from within the module, every few milliseconds of work.
func (r *run) tick() {
	r.checkStopped()
	if r.cpu.Check() {
		panic(errStopped)
	}
	r.must(r.prints.flush())
}

// checkInterval is the work of system calls, in bytes, after which the time and the processor
// time are checked.
const checkInterval = 1 << 20

// chargeWork counts the work of a system call, which uses no fuel: n bytes, and a fixed amount
// for the call itself.
func (r *run) chargeWork(n int) {
	const each = 64
	if r.workDone += n + each; r.workDone >= checkInterval {
		r.workDone = 0
		r.tick()
	}
}

// must ends the module if sending to the server failed.
func (r *run) must(err error) {
	if err != nil {
		r.err = err
		panic(errStopped)
	}
}

// Arguments implements [wasm.System].
func (r *run) Arguments() []string { return r.chargeList(r.arguments) }

// Environment implements [wasm.System].
func (r *run) Environment() []string { return r.chargeList(r.env) }

// chargeList charges for copying a list to the module, and returns the list.
func (r *run) chargeList(list []string) []string {
	for _, text := range list {
		r.chargeWork(len(text))
	}
	return list
}

// Stream implements [wasm.System].
func (r *run) Stream(fd uint32) wasm.Stream {
	switch fd {
	case stdin:
		return wasm.Readable
	case stdout, stderr:
		return wasm.Writable
	case bridgeFD:
		return wasm.Readable | wasm.Writable | wasm.Live
	}
	return 0
}

// Blocks implements [wasm.System].
func (r *run) Blocks() bool { return !r.nonblock }

// SetBlocks implements [wasm.System].
func (r *run) SetBlocks(blocks bool) { r.nonblock = !blocks }

// pollWork is the work of waiting for many things, for [run.chargeWork].
const pollWork = 16 << 10

// Await implements [wasm.System].
func (r *run) Await(atMost time.Duration) bool {
	r.chargeWork(pollWork)
	r.checkStopped()
	if atMost > 0 {
		r.must(r.prints.flush())
	}
	ready := r.bridgeFile.await(r.ctx, atMost)
	r.checkStopped()
	if !ready {
		r.clock.pass(atMost)
	}
	return ready
}

// Read implements [wasm.System].
func (r *run) Read(fd uint32, to []byte) int {
	r.chargeWork(len(to))
	if fd == bridgeFD {
		return r.bridgeFile.read(to)
	}
	n, _ := r.stdin.Read(to) // its only error is its end
	return n
}

// Write implements [wasm.System].
func (r *run) Write(fd uint32, data []byte) int {
	r.chargeWork(len(data))
	r.checkStopped()
	switch fd {
	case bridgeFD:
		r.must(r.bridgeFile.write(data))
	case stdout:
		r.must(r.prints.write("stdout", data))
	default:
		r.must(r.prints.write("stderr", data))
	}
	return len(data)
}

// Sleep implements [wasm.System].
func (r *run) Sleep(d time.Duration) {
	r.chargeWork(pollWork)
	r.checkStopped()
	if d > 0 {
		r.must(r.prints.flush())
		r.inbox.Sleep(r.ctx, d)
		r.checkStopped()
	}
	r.clock.pass(d)
}

// Now implements [wasm.System].
func (r *run) Now(id uint32) uint64 { return r.clock.now(id) }

// Random implements [wasm.System].
func (r *run) Random(to []byte) {
	for piece := range slices.Chunk(to, checkInterval) {
		r.chargeWork(len(piece))
		_, _ = io.ReadFull(r.random, piece) // neither source ends
	}
}

// clock is the clock of a module. A virtual clock does not show real time.
type clock struct {
	began   time.Time
	virtual bool          // it does not show real time
	shown   time.Duration // by a still clock
}

// epoch is the start of a virtual clock: the year 2000.
const epoch = 946_684_800 * time.Second

// now returns the time of the clock with this number. A virtual clock advances with each reading
// and with each sleep, so that a module that waits for a time ends.
func (c *clock) now(id uint32) uint64 {
	if c.virtual {
		c.shown += time.Microsecond
		return uint64(epoch + c.shown)
	}
	if id == 0 {
		return uint64(time.Now().UnixNano())
	}
	return uint64(time.Since(c.began)) + 1 // some programs treat 0 as unset
}

func (c *clock) pass(d time.Duration) {
	if c.virtual {
		c.shown += d
	}
}

// failure returns why a module did not end by itself, from the error of its
// execution. It returns nil if the module ended by itself.
func (r *run) failure(err error) (exit int, f *bridge.Failure) {
	var ended *wasm.ExitError
	switch {
	case errors.Is(r.err, errGarbage):
		return 0, &bridge.Failure{Kind: bridge.FailProgram, Type: "ProtocolError", Message: r.err.Error()}
	case errors.As(err, &ended):
		exit = int(ended.Code)
	case r.cpu.Exceeded():
		return 0, &bridge.Failure{Kind: bridge.FailLimit, Limit: "cpu", Message: "the module used all its CPU time"}
	case r.stopped():
		return 0, &bridge.Failure{Kind: bridge.FailCancelled, Message: "it was cancelled"}
	case err != nil:
		reason, stack, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
		f = &bridge.Failure{Kind: bridge.FailProgram, Type: "Trap", Message: fmt.Sprintf("the module broke off: %.2000s", reason), Trace: stack}
	}
	if r.memory != nil && r.memory.Refused && (f != nil || exit != 0) {
		// The module was refused memory and failed because of that.
		return exit, &bridge.Failure{Kind: bridge.FailLimit, Limit: "memory", Message: fmt.Sprintf("the module needed more memory than its %d MiB", r.limit>>20)}
	}
	return exit, f
}
