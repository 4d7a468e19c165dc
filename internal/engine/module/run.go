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
	tools // the bridge
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
	worked     int   // of the work of system calls, what was done since the last look
	err        error // the error of sending to the server
}

// begin returns the run of a job. Tell sends a frame to the server.
func begin(ctx context.Context, j job, tell func(bridge.Frame) error) *run {
	p := j.program
	r := &run{
		ctx: ctx, inbox: j.inbox, limit: p.Limits.WithDefaults().Memory,
		arguments: append([]string{p.Name}, p.Command...), env: p.Env, stdin: bytes.NewReader(p.Stdin), random: rand.Reader,
		clock: clock{began: time.Now(), still: p.Profile == string(sandbox.Hardened)},
	}
	r.cpu = proc.MeterCPU(time.Duration(p.Limits.CPU) * time.Millisecond)
	if len(p.Seed) > 0 {
		r.random = mathrand.NewChaCha8(sha256.Sum256(p.Seed))
	}
	r.prints.tell = func(body bridge.Map) error {
		return tell(bridge.Frame{Kind: bridge.Print, Token: j.token, Body: body})
	}
	r.bridgeFile = newDoor(j, func(f bridge.Frame) error { return errors.Join(r.prints.end(), tell(f)) })
	return r
}

type runKey struct{}

func runOf(ctx context.Context) *run { return ctx.Value(runKey{}).(*run) }

func (r *run) stopped() bool { return r.inbox.Cancelled() || r.ctx.Err() != nil }

// goOn ends the module if its run is over.
func (r *run) goOn() {
	if r.stopped() || r.bridgeFile.ended {
		panic(errStopped)
	}
}

// tick is called, from within the module, every few milliseconds of work.
func (r *run) tick() {
	r.goOn()
	if r.cpu.Look() {
		panic(errStopped)
	}
	r.must(r.prints.flush())
}

// look is how much work of system calls, in bytes, is done before the time and the processor
// time are looked at.
const look = 1 << 20

// work counts the work of a system call, which uses no fuel: n bytes, and as much as a call
// takes in any case.
func (r *run) work(n int) {
	const each = 64
	if r.worked += n + each; r.worked >= look {
		r.worked = 0
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
func (r *run) Arguments() []string { return r.listed(r.arguments) }

// Environment implements [wasm.System].
func (r *run) Environment() []string { return r.listed(r.env) }

// listed counts the work of copying a list to the module.
func (r *run) listed(list []string) []string {
	for _, text := range list {
		r.work(len(text))
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
	case tools:
		return wasm.Readable | wasm.Writable | wasm.Live
	}
	return 0
}

// Blocks implements [wasm.System].
func (r *run) Blocks() bool { return !r.nonblock }

// SetBlocks implements [wasm.System].
func (r *run) SetBlocks(blocks bool) { r.nonblock = !blocks }

// pollWork is the work of waiting for many things, for [run.work].
const pollWork = 16 << 10

// Await implements [wasm.System].
func (r *run) Await(atMost time.Duration) bool {
	r.work(pollWork)
	r.goOn()
	if atMost > 0 {
		r.must(r.prints.flush())
	}
	ready := r.bridgeFile.await(r.ctx, atMost)
	r.goOn()
	if !ready {
		r.clock.pass(atMost)
	}
	return ready
}

// Read implements [wasm.System].
func (r *run) Read(fd uint32, to []byte) int {
	r.work(len(to))
	if fd == tools {
		return r.bridgeFile.read(to)
	}
	n, _ := r.stdin.Read(to) // its only error is its end
	return n
}

// Write implements [wasm.System].
func (r *run) Write(fd uint32, data []byte) int {
	r.work(len(data))
	r.goOn()
	switch fd {
	case tools:
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
	r.work(pollWork)
	r.goOn()
	if d > 0 {
		r.must(r.prints.flush())
		r.inbox.Sleep(r.ctx, d)
		r.goOn()
	}
	r.clock.pass(d)
}

// Now implements [wasm.System].
func (r *run) Now(id uint32) uint64 { return r.clock.now(id) }

// Random implements [wasm.System].
func (r *run) Random(to []byte) {
	for piece := range slices.Chunk(to, look) {
		r.work(len(piece))
		_, _ = io.ReadFull(r.random, piece) // neither source ends
	}
}

// clock is the clock of a module.
type clock struct {
	began time.Time
	still bool          // it does not show real time
	shown time.Duration // by a still clock
}

// epoch is the start of a still clock: the year 2000.
const epoch = 946_684_800 * time.Second

// now returns the time of the clock with this number. A still clock advances with
// each reading and with the time slept, so that waiting ends.
func (c *clock) now(id uint32) uint64 {
	if c.still {
		c.shown += time.Microsecond
		return uint64(epoch + c.shown)
	}
	if id == 0 {
		return uint64(time.Now().UnixNano())
	}
	return uint64(time.Since(c.began)) + 1 // some programs treat 0 as unset
}

func (c *clock) pass(d time.Duration) {
	if c.still {
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
	case r.cpu.Over():
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
