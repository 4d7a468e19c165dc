package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// Bad runs misbehaving programs. Each must end with an error that names the problem;
// those that use up their time must end within it plus [Overrun]. The next program
// must run normally, and programs of another owner must run normally all the time.
func Bad(t *testing.T, o Options) {
	s := newSuite(t, o)
	for _, language := range s.languages() {
		t.Run(language, func(t *testing.T) {
			_, holdsCPU := s.engine.Probe(t.Context()).Holds[sandbox.LimitCPU]
			heart := s.startOtherOwner(t, language)
			for _, c := range slices.Concat(badPrograms, o.Bad) {
				source, ok := c.Source[language]
				if !ok || s.isSkipped(c.Key) || c.Stream && o.Stream == 0 || c.Limits.CPU > 0 && !holdsCPU {
					continue
				}
				t.Run(c.Key, func(t *testing.T) {
					heart.wake()
					s.bad(t, language, strings.ReplaceAll(source, "STREAM", fmt.Sprint(o.Stream)), c)
					s.checkStillWorks(t, language)
					heart.awaitRun(t)
				})
			}
			heart.stop(t)
		})
	}
}

// Overrun is how long after its time a program may still take to end.
const Overrun = 200 * time.Millisecond

// BadProgram is a program that must end in one of certain ways.
type BadProgram struct {
	Key    string
	Source map[string]string // by language
	// Ends lists the allowed ends, separated by spaces: codes of the run's error,
	// kinds of the program's failure, and "ok" for neither.
	Ends string
	// Says must be in the text of the error, ignoring case.
	Says string
	// Stream means that it needs the stream; STREAM in its source becomes the descriptor.
	Stream bool
	Limits bridge.Limits
}

const (
	shortWall = 500     // for programs that end by their time
	longWall  = 300_000 // for those that must end by something else, on slow machines too
)

func (s *suite) bad(t *testing.T, language, source string, c BadProgram) {
	t.Helper()
	// A busy machine can delay the end, so a late program is tried again, for up to a
	// minute. An engine that is itself late is late each time.
	const tries = 4
	began := time.Now()
	for try := 1; ; try++ {
		took, ok := s.runBad(t, language, source, c)
		if ok {
			return
		}
		if try >= tries && time.Since(began) > time.Minute {
			t.Errorf("it ran for %s, its time is %s", took, shortWall*time.Millisecond)
			return
		}
	}
}

func (s *suite) runBad(t *testing.T, language, source string, c BadProgram) (took time.Duration, inTime bool) {
	t.Helper()
	j := s.job(language, source)
	j.Program.Limits = c.Limits
	l := &j.Program.Limits
	timed := strings.HasPrefix(c.Ends, string(toolroom.CodeTimeout))
	if l.Wall = longWall; timed {
		l.Wall = shortWall
	}
	if l.Memory == 0 {
		l.Memory = s.options.Memory
	}
	if l.Output == 0 {
		l.Output = 1 << 20
	}
	if s.options.Sandbox.Guest != "" {
		j.Sandbox.Limits.Memory, j.Sandbox.Limits.PIDs, j.Sandbox.Limits.CPU = l.Memory, 64, time.Duration(l.CPU)*time.Millisecond
	}
	began := time.Now()
	result, err := s.engine.Run(t.Context(), j, newCallHandler())
	took = time.Since(began)
	if result != nil {
		took -= result.Start
	}
	how, text := "ok", ""
	switch {
	case err != nil:
		how, text = string(toolroom.CodeOf(err)), err.Error()
	case result.Outcome.Failure != nil:
		how, text = string(result.Outcome.Failure.Kind), result.Outcome.Failure.Error()
	case result.Outcome.Exit != 0:
		how, text = string(bridge.FailProgram), fmt.Sprintf("exit code %d", result.Outcome.Exit)
	}
	if !slices.Contains(strings.Fields(c.Ends), how) {
		t.Errorf("it ended as %q: %.300s; want %s", how, text, c.Ends)
	}
	if !strings.Contains(strings.ToLower(text), strings.ToLower(c.Says)) {
		t.Errorf("it does not say %q: %.300s", c.Says, text)
	}
	return took, how != string(toolroom.CodeTimeout) || took <= time.Duration(l.Wall)*time.Millisecond+Overrun
}

// otherOwner runs small programs of another owner, one after the other, to see whether bad
// programs disturb them.
type otherOwner struct {
	runs   chan struct{}
	wakeUp chan struct{}
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	failed error
}

func (s *suite) startOtherOwner(t *testing.T, language string) *otherOwner {
	ctx, cancel := context.WithCancel(t.Context())
	h := &otherOwner{runs: make(chan struct{}), wakeUp: make(chan struct{}, 1), cancel: cancel}
	source := map[string]string{"python": "tools.echo.value(value=7)", "javascript": "return await tools.echo.value({value: 7})", "wasm": "seven"}[language]
	h.done.Go(func() {
		for ctx.Err() == nil {
			j := s.job(language, source)
			j.Owner = "another"
			result, err := s.engine.Run(ctx, j, newCallHandler())
			if ctx.Err() != nil {
				return
			}
			if err != nil || result.Outcome.Value != bridge.Value(int64(7)) {
				h.fail(fmt.Errorf("it gave %s: %w", describe(result), err))
			}
			select {
			case h.runs <- struct{}{}:
			case <-h.wakeUp:
			case <-time.After(restTime):
			case <-ctx.Done():
			}
		}
	})
	return h
}

// restTime is the pause between two programs of the other owner. Without it they took more CPU time
// than all others.
const restTime = 100 * time.Millisecond

// wake ends the pause, so that a program of the other owner runs beside the next bad program.
func (h *otherOwner) wake() {
	select {
	case h.wakeUp <- struct{}{}:
	default: // it has been woken already
	}
}

func (h *otherOwner) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed == nil {
		h.failed = err
	}
}

// awaitRun waits until a program of the other owner has ended, and checks all that have ended.
func (h *otherOwner) awaitRun(t *testing.T) {
	t.Helper()
	select {
	case <-h.runs:
	case <-time.After(20 * time.Second):
		t.Fatal("the programs of another owner stand still")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failed != nil {
		t.Fatalf("a program of another owner came to harm: %v", h.failed)
	}
}

func (h *otherOwner) stop(t *testing.T) {
	t.Helper()
	h.awaitRun(t)
	h.cancel()
	h.done.Wait()
}

func describe(r *engine.Result) string {
	if r == nil {
		return "nothing"
	}
	return fmt.Sprintf("%v (%+v)", r.Outcome.Value, r.Outcome.Failure)
}
