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
	w     *speaker
	p     bridge.Program
	ready *program.Ready
	h     bridge.Handler

	before state // of the session

	names   *names
	raised  []raised // errors of tools
	asked   int
	bytes   int64
	printed int64
	seeded  *rand.ChaCha8 // once random bytes of the run's seed were drawn

	futures map[uint32]bool // calls whose answers the program does not have
	sleeps  int             // those of them that sleep
	settled chan settled
	slots   chan struct{} // calls answered at once
	over    context.CancelFunc
}

// settled is the answer of a call that was awaited.
type settled struct {
	call  uint32
	sleep bool
	give  func() protocol.Answer
}

func newRun(ctx context.Context, w *speaker, p bridge.Program, before state, ready *program.Ready, h bridge.Handler) *run {
	r := &run{
		w: w, p: p, before: before, ready: ready, h: h, names: newNames(p, ready),
		futures: map[uint32]bool{}, settled: make(chan settled, 16), slots: make(chan struct{}, p.Limits.Parallel),
	}
	r.ctx, r.over = context.WithCancel(ctx)
	return r
}

// run runs the program, and reports whether the worker can be used afterwards.
func (r *run) run() (out *bridge.Outcome, well bool, err error) {
	stop := context.AfterFunc(r.ctx, r.w.End)
	defer func() {
		well = stop() && well
		r.over() // no caller waits for these answers any more
		for len(r.futures) > 0 {
			s := <-r.settled
			delete(r.futures, s.call)
		}
	}()
	begin, answers, err := r.begin()
	if err != nil {
		return nil, true, err
	}
	if err := r.w.conn.Send(begin...); err != nil {
		return nil, false, r.gone(err)
	}
	answers += r.w.owes
	for r.w.owes = 0; answers > 0; answers-- {
		e, err := r.w.conn.Receive()
		if err != nil {
			return nil, false, r.gone(err)
		}
		if e.Kind != protocol.Ok && e.Kind != protocol.Complete {
			return nil, false, refusedToBegin(e)
		}
	}
	e, err := r.converse()
	if err != nil {
		return nil, false, r.gone(err)
	}
	out = r.outcome(e)
	if f := out.Failure; f != nil && f.Kind == bridge.FailLimit {
		// After this the heap cannot be trusted.
		return out, false, limitReached(f)
	}
	if r.p.Session != "" {
		if out.State, err = r.dump(); err != nil {
			return out, false, err
		}
	}
	// The worker drops the program's state while the answer is on its way.
	r.w.owes = 1
	return out, r.w.conn.Send(protocol.Reset()) == nil, nil
}

// begin returns the requests that begin the program, and how many Ok events come
// before its own events.
func (r *run) begin() (list []protocol.Request, answers int, err error) {
	session := protocol.Session{Version: r.w.version, Memory: uint64(r.p.Limits.Memory), Duration: uint64(r.p.Limits.CPU) * 1000}
	list = append(list, protocol.Configure(session))
	if len(r.p.State) > 0 {
		if err := r.before.fits(r.w.version); err != nil {
			return nil, 0, err
		}
		r.names.restore(r.before.Names)
		list = append(list, protocol.Load(r.before.dump))
	}
	// The state holds the state of random, which would draw the same again.
	if len(r.p.State) > 0 || len(r.p.Seed) > 0 && strings.Contains(r.p.Source, "random") {
		number := make([]byte, 8)
		r.random(number)
		seed := fmt.Sprintf("import random as toolroom_random\ntoolroom_random.seed(%d)\nNone", binary.NativeEndian.Uint64(number)>>1)
		list = append(list, protocol.Feed(seed, nil))
	}
	inputs := slices.Concat(r.names.roots(r.before.Bound), r.p.Inputs)
	return append(list, protocol.Feed(r.ready.Source, inputs)), len(list), nil
}

func refusedToBegin(e protocol.Event) error {
	what := e.Message
	if e.Error != nil {
		what = e.Error.Message
	}
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "the worker did not accept the program: %s", what).
		WithHint("a session of another release of Monty cannot be continued: begin a new one")
}

// exitMemory is the exit code of a worker whose allocator was refused memory.
const exitMemory = 65

// gone returns why the worker has ended.
func (r *run) gone(err error) error {
	var known *toolroom.Error
	if errors.As(err, &known) || r.ctx.Err() != nil {
		return err
	}
	if errors.Is(err, protocol.ErrGone) {
		code := r.w.ExitCode()
		if code == exitMemory {
			return limitReached(&bridge.Failure{Limit: "memory"})
		}
		return fmt.Errorf("%w with exit code %d%s", err, code, r.w.StderrSuffix())
	}
	return err
}

func limitReached(f *bridge.Failure) error {
	e := bridge.OverLimit(f.Limit, "the program was stopped: it reached its limit of %s", f.Limit)
	return e.WithHint("make the program do less at once, or ask for a higher limit")
}

// converse answers the program until it ends.
func (r *run) converse() (protocol.Event, error) {
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
			answer, err = r.call(e)
		case protocol.SystemCall:
			answer = r.system(e)
		case protocol.ResolveFutures:
			answer, err = r.resolve(e.Pending)
		default:
			err = fmt.Errorf("the worker sent an event of kind %d: %s", e.Kind, e.Message)
		}
		if err == nil && len(r.names.objects) > maxObjects {
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

// maxObjects is how many names below tools, results of commands and so on this process keeps
// for a program, whose own limit of memory does not count them.
const maxObjects = 1 << 15

func (r *run) print(segments []protocol.Segment) error {
	for _, s := range segments {
		if r.printed += int64(len(s.Text)); r.printed > r.p.Limits.Output {
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

// resolve waits for one of the calls under way, and returns all available answers.
// Monty lists all calls without an answer, awaited or not.
func (r *run) resolve(pending []uint32) (protocol.Request, error) {
	for _, call := range pending {
		if !r.futures[call] {
			return nil, fmt.Errorf("the worker waits for the call %d, which is not under way", call)
		}
	}
	answers := map[uint32]protocol.Answer{}
	take := func(s settled) {
		delete(r.futures, s.call)
		if s.sleep {
			r.sleeps--
		}
		answers[s.call] = s.give()
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
