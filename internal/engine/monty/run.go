package monty

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/monty/program"
	"github.com/toolroom/toolroom/internal/engine/monty/protocol"
)

// run is one run of a program. Its goroutine communicates with the worker; calls that
// are awaited are answered in other goroutines.
type run struct {
	ctx   context.Context
	w     *montyWorker
	p     bridge.Program
	ready *program.Prepared
	h     bridge.Handler

	session state // of the session

	names        *nameTable
	raisedErrors []raisedError // errors of tools
	callCount    int
	callBytes    int64
	printedBytes int64
	seededRand   *rand.ChaCha8 // once random bytes of the run's seed were drawn

	futures  map[uint32]bool // calls whose answers the program does not have
	sleeping int             // how many of them sleep
	settled  chan futureResult
	slots    chan struct{} // limits the calls that are made at the same time
	cancel   context.CancelFunc
}

// futureResult is the result of a call for which the program got a future.
type futureResult struct {
	call   uint32
	sleep  bool
	answer func() protocol.Answer
}

func newRun(ctx context.Context, w *montyWorker, p bridge.Program, session state, ready *program.Prepared, h bridge.Handler) *run {
	r := &run{
		w: w, p: p, session: session, ready: ready, h: h, names: newNames(p, ready),
		futures: map[uint32]bool{}, settled: make(chan futureResult, 16), slots: make(chan struct{}, p.Limits.Parallel),
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	return r
}

// run runs the program, and reports whether the worker can be used again.
func (r *run) run() (out *bridge.Outcome, reusable bool, err error) {
	stop := context.AfterFunc(r.ctx, r.w.End)
	defer func() {
		reusable = stop() && reusable
		r.cancel() // no caller waits for these answers any more
		for len(r.futures) > 0 {
			s := <-r.settled
			delete(r.futures, s.call)
		}
	}()
	begin, answers, err := r.startRequests()
	if err != nil {
		return nil, true, err
	}
	err = r.w.conn.Send(begin...)
	for answers += r.w.pendingAnswers; err == nil && answers > 0; answers-- {
		var e protocol.Event
		switch e, err = r.w.conn.Receive(); {
		case err != nil:
		case e.Kind == protocol.Fatal && r.w.pendingAnswers > 0: // it broke as it dropped the state of the last run
			err = errors.New(e.Message)
		case e.Kind != protocol.Ok && e.Kind != protocol.Complete:
			return nil, false, startRefused(e)
		default:
			r.w.pendingAnswers = max(0, r.w.pendingAnswers-1)
		}
	}
	if err != nil { // nothing of the program has had an effect
		return nil, false, fmt.Errorf("%w: %w", bridge.ErrNotBegun, r.workerError(err))
	}
	e, err := r.serveEvents()
	if err != nil {
		return nil, false, r.workerError(err)
	}
	out = r.newOutcome(e)
	if f := out.Failure; f != nil && f.Kind == bridge.FailLimit {
		// After this the heap cannot be trusted.
		return out, false, limitError(f)
	}
	if r.p.Session != "" {
		if out.State, err = r.dumpState(); err != nil {
			return out, false, err
		}
	}
	// The worker drops the program's state while the answer is on its way.
	r.w.pendingAnswers = 1
	return out, r.w.conn.Send(protocol.Reset()) == nil, nil
}

// startRequests returns the requests that start the program, and the number of events that
// answer them before the program's own events.
func (r *run) startRequests() (list []protocol.Request, answers int, err error) {
	session := protocol.Session{Version: r.w.version, Memory: uint64(r.p.Limits.Memory), Duration: uint64(r.p.Limits.CPU) * 1000}
	list = append(list, protocol.Configure(session))
	if len(r.p.State) > 0 {
		if err := r.session.checkVersion(r.w.version); err != nil {
			return nil, 0, err
		}
		r.names.restore(r.session.Names)
		list = append(list, protocol.Load(r.session.dump))
	}
	// Without a new seed, each run from one state would draw the same random numbers.
	if len(r.p.State) > 0 || len(r.p.Seed) > 0 && strings.Contains(r.p.Source, "random") {
		number := make([]byte, 8)
		r.fillRandom(number)
		seed := fmt.Sprintf("import random as toolroom_random\ntoolroom_random.seed(%d)\nNone", binary.NativeEndian.Uint64(number)>>1)
		list = append(list, protocol.Feed(seed, nil))
	}
	inputs := slices.Concat(r.names.mentionedGlobals(r.session.Bound), r.p.Inputs)
	return append(list, protocol.Feed(r.ready.Source, inputs)), len(list), nil
}

func startRefused(e protocol.Event) error {
	what := e.Message
	if e.Error != nil {
		what = e.Error.Message
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker did not accept the program: %s", what).
		WithHint("a session of another release of Monty cannot be continued: begin a new one")
}

// exitMemory is the exit code of a worker whose allocator was refused memory.
const exitMemory = 65

// workerError returns why the connection to the worker failed: err, or a better reason from
// the worker's exit code.
func (r *run) workerError(err error) error {
	var known *toolroom.Error
	if errors.As(err, &known) || r.ctx.Err() != nil {
		return err
	}
	if errors.Is(err, protocol.ErrGone) {
		code := r.w.ExitCode()
		if code == exitMemory {
			return limitError(&bridge.Failure{Limit: "memory"})
		}
		return fmt.Errorf("%w with exit code %d%s", err, code, r.w.StderrSuffix())
	}
	return err
}

func limitError(f *bridge.Failure) error {
	e := bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit)
	return e.WithHint("make the program do less at once, or ask for a higher limit")
}

// serveEvents answers the program's events until it ends, and returns the last one.
func (r *run) serveEvents() (protocol.Event, error) {
	for {
		e, err := r.w.conn.Receive()
		if err != nil {
			return e, err
		}
		var answer protocol.Request
		switch e.Kind {
		case protocol.Print:
			if err := r.print(e.Segments); err != nil {
				return e, err
			}
			continue
		case protocol.Complete, protocol.Raised:
			return e, nil
		case protocol.NameLookup:
			answer = r.lookUp(e)
		case protocol.FunctionCall:
			answer, err = r.handleCall(e)
		case protocol.SystemCall:
			answer = r.handleSystemCall(e)
		case protocol.ResolveFutures:
			answer, err = r.resolveFutures(e.Pending)
		default:
			err = fmt.Errorf("the worker sent an event of kind %d: %s", e.Kind, e.Message)
		}
		if err == nil && len(r.names.objects)+len(r.names.tools) > maxObjects {
			err = bridge.OverLimit("memory", "the program has asked for more than %d names and objects", maxObjects)
		}
		if err == nil {
			err = r.w.conn.Send(answer)
		}
		if err != nil {
			return e, err
		}
	}
}

// maxObjects is the largest number of objects (namespaces, tools, results of commands and so on)
// that this process keeps for a program, whose memory limit does not count them.
const maxObjects = 1 << 15

func (r *run) print(segments []protocol.Segment) error {
	for _, s := range segments {
		if r.printedBytes += int64(len(s.Text)); r.printedBytes > r.p.Limits.Output {
			return bridge.OverLimit("output", "the program printed more than %d bytes", r.p.Limits.Output)
		}
		stream := "stdout"
		if s.Stderr {
			stream = "stderr"
		}
		r.h.Print(stream, s.Text)
	}
	return nil
}

// resolveFutures waits until one of the calls under way has an answer, and returns all
// available answers. pending lists all calls without an answer, awaited or not.
func (r *run) resolveFutures(pending []uint32) (protocol.Request, error) {
	for _, call := range pending {
		if !r.futures[call] {
			return nil, fmt.Errorf("the worker waits for the call %d, which is not under way", call)
		}
	}
	answers := map[uint32]protocol.Answer{}
	take := func(s futureResult) {
		delete(r.futures, s.call)
		if s.sleep {
			r.sleeping--
		}
		answers[s.call] = s.answer()
	}
	select {
	case s := <-r.settled:
		take(s)
	case <-r.ctx.Done():
		return nil, context.Cause(r.ctx)
	}
	for {
		select {
		case s := <-r.settled:
			take(s)
		default:
			return protocol.ResumeFutures(answers), nil
		}
	}
}
