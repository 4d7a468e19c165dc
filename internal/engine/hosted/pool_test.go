package hosted_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// sandboxes counts the running sandboxes of a driver.
type sandboxes struct {
	sandbox.Driver
	open atomic.Int32
}

func (d *sandboxes) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := d.Driver.Start(ctx, s)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &counted{Sandbox: sb, gone: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

type counted struct {
	sandbox.Sandbox
	gone func()
}

func (b *counted) Kill(ctx context.Context) error {
	b.gone()
	return b.Sandbox.Kill(ctx)
}

func TestWarmSandboxesServeOneProgramOfTheirKindEach(t *testing.T) {
	t.Parallel()
	self := selfWith(t, "sh")
	// The path of a socket must be short, and a test's folder is not.
	d := &sandboxes{Driver: &host.Driver{Owner: proc.Owner(), Environ: os.Environ()}}
	e := hosted.NewWarm(d, hosted.Warm{Size: 1})
	spec := sandbox.Spec{Profile: sandbox.Dev, Guest: self, Limits: sandbox.Limits{Memory: 1 << 30}}
	e.Warm(spec)
	e.Warm(spec) // already exists
	run := func(memory int64) {
		t.Helper()
		for e.Stats()[0].Ready == 0 {
			select {
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			case <-time.After(time.Millisecond):
			}
		}
		spec := spec
		spec.Limits = sandbox.Limits{Memory: memory, Wall: 20 * time.Second}
		result, err := e.Run(t.Context(), engine.Job{
			Run: "run-warm", Owner: "tester", Sandbox: spec,
			Program: bridge.Program{Language: "shell", Source: "test ! -e mark && touch mark", Limits: bridge.Limits{Wall: 20_000}},
		}, quiet{})
		if err != nil || result.Outcome.Failure != nil || result.Outcome.Exit != 0 {
			t.Fatalf("got %+v, %v: a folder that was used before?", result, err)
		}
	}
	for range 3 {
		run(1 << 30)
	}
	run(2 << 30) // another limit, another kind
	run(2 << 30)
	stats := e.Stats()
	if diff := cmp.Diff([]hosted.Stats{{Profile: sandbox.Dev, Size: 1, Taken: 4, Drained: 1}}, stats, cmpopts.IgnoreFields(hosted.Stats{}, "Ready", "Starting")); diff != "" {
		t.Errorf("the counts differ (-want +got):\n%s", diff)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d sandboxes are left after Close", n)
	}
}

// tame is a driver whose guests run in this process and whose starts fail on request.
type tame struct {
	sandbox.Driver
	mu        sync.Mutex
	fail      int // number of starts that fail
	starts    []time.Time
	languages []string // for which each guest prepares an interpreter; empty means the default
	sandboxes []*inside
}

func (*tame) Name() string { return "tame" }

func (*tame) Probe(context.Context) sandbox.Probe { return sandbox.Probe{State: sandbox.Available} }

func (d *tame) Start(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts = append(d.starts, time.Now())
	if d.fail > 0 {
		d.fail--
		return nil, errors.New("the engine is restarting")
	}
	ours, theirs := net.Pipe()
	go bridge.Join(theirs, bridge.GuestOptions{})
	b := &inside{stream: ours, guest: theirs}
	d.sandboxes = append(d.sandboxes, b)
	return b, nil
}

// inside is a guest in this process that runs nothing.
type inside struct {
	sandbox.Sandbox
	stream, guest net.Conn
	killed        atomic.Bool
}

func (b *inside) Stream() io.ReadWriteCloser { return b.stream }

func (b *inside) Kill(context.Context) error {
	b.killed.Store(true)
	return b.guest.Close()
}

// since returns the times of starts, in seconds from the first.
func (d *tame) since() []float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []float64
	for _, at := range d.starts {
		all = append(all, at.Sub(d.starts[0]).Seconds())
	}
	return all
}

func (d *tame) alive() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(d.sandboxes), func(b *inside) bool { return b.killed.Load() }))
}

// keep fills a pool that uses d, and closes it with the test.
func keep(t *testing.T, d *tame, w hosted.Warm) *hosted.Engine {
	e := hosted.NewWarm(d, w)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if n := d.alive(); n != 0 {
			t.Errorf("%d sandboxes are left after Close", n)
		}
	})
	e.Warm(sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true})
	return e
}

func TestAStartAheadThatFailsIsTriedAgainAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &tame{fail: 9}
		e := keep(t, d, hosted.Warm{Size: 2})
		time.Sleep(10 * time.Second)
		s := e.Stats()[0]
		if s.Ready != 0 || s.Starting != 2 || s.Failures != 4 || s.Problem == nil {
			t.Errorf("of a pool that cannot be filled: %+v", s)
		}
		time.Sleep(4 * time.Minute)
		if diff := cmp.Diff([]float64{0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 243}, d.since()); diff != "" {
			t.Errorf("the starts differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(hosted.Stats{Profile: sandbox.Standard, Size: 2, Ready: 2, Failures: 9}, e.Stats()[0]); diff != "" {
			t.Errorf("the counts differ (-want +got):\n%s", diff)
		}
	})
}

func TestASandboxThatHasWaitedTooLongIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &tame{}
		e := keep(t, d, hosted.Warm{Size: 1, MaxAge: time.Minute})
		time.Sleep(150 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]float64{0, 60, 120}, d.since()); diff != "" {
			t.Errorf("the starts differ (-want +got):\n%s", diff)
		}
		if s := e.Stats()[0]; s.Ready != 1 || s.Failures != 0 || d.alive() != 1 {
			t.Errorf("%d are alive; %+v", d.alive(), s)
		}
	})
}

func TestASandboxThatEndsWhileItWaitsIsReplaced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &tame{}
		e := keep(t, d, hosted.Warm{Size: 1})
		synctest.Wait()
		d.sandboxes[0].guest.Close()
		synctest.Wait()
		if s := e.Stats()[0]; s.Ready != 0 || s.Starting != 1 || s.Failures != 1 || s.Problem == nil {
			t.Errorf("after its end: %+v", s)
		}
		time.Sleep(2 * time.Second)
		if s := e.Stats()[0]; s.Ready != 1 || s.Problem != nil || !d.sandboxes[0].killed.Load() {
			t.Errorf("later: %+v", s)
		}
	})
}

// leaving is a driver whose first guests end as they get a program.
type leaving struct {
	tame
	left int // how many more end
	wrap func(*inside) sandbox.Sandbox
}

func (d *leaving) Start(_ context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.starts = append(d.starts, time.Now())
	language := ""
	for _, entry := range s.Env {
		if value, ok := strings.CutPrefix(entry, guest.AheadLanguageEnv+"="); ok {
			language = value
		}
	}
	d.languages = append(d.languages, language)
	ours, theirs := net.Pipe()
	b := &inside{stream: ours, guest: theirs}
	d.sandboxes = append(d.sandboxes, b)
	d.left--
	go func(ends bool) {
		w := bridge.NewWire(theirs)
		if w.Write(bridge.Frame{Kind: bridge.Hello, Body: bridge.Map{{Key: "versions", Value: []bridge.Value{int64(bridge.Version)}}}}) != nil {
			return
		}
		if ends {
			_, _ = theirs.Read(make([]byte, 1)) // of the program
			theirs.Close()
			return
		}
		if start, _, err := w.Read(); err == nil {
			_ = w.Write(bridge.Frame{Kind: bridge.Done, Token: start.Token, Body: bridge.Map{{Key: "value", Value: int64(42)}}})
		}
	}(d.left >= 0)
	if d.wrap != nil {
		return d.wrap(b), nil
	}
	return b, nil
}

func (b *inside) Isolation() string { return "none" }

func (b *inside) Held() map[sandbox.Limit]string { return nil }

func (b *inside) Usage() sandbox.Usage { return sandbox.Usage{} }

func (b *inside) Wait(context.Context) (sandbox.Exit, error) { return sandbox.Exit{}, nil }

func TestAGuestThatEndsAsItIsTakenFailsNoProgram(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 2} {
		d := &leaving{left: size}
		e := hosted.NewWarm(d, hosted.Warm{Size: size})
		spec := sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true}
		e.Warm(spec)
		for e.Stats()[0].Ready < size {
			time.Sleep(time.Millisecond)
		}
		job := engine.Job{Run: "r", Sandbox: spec, Program: bridge.Program{Language: "python", Source: "42"}}
		got, err := e.Run(t.Context(), job, nil)
		if err != nil || got.Outcome.Value != int64(42) {
			t.Errorf("with %d that end: %+v, %v", size, got, err)
		}
		if err := e.Close(); err != nil || d.alive() != 0 {
			t.Errorf("%d are left, %v", d.alive(), err)
		}
	}
	// A program that finds none waiting is told at once.
	d := &leaving{left: 1}
	e := hosted.NewWarm(d, hosted.Warm{})
	defer e.Close()
	if _, err := e.Run(t.Context(), engine.Job{Run: "r", Sandbox: sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true}, Program: bridge.Program{Language: "python", Source: "42"}}, nil); toolroom.CodeOf(err) != toolroom.CodeExecutionFailed {
		t.Errorf("without a sandbox that waits: %v", err)
	}
}

func TestAReplacementStartsAfterAPauseUnlessNoSandboxWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &leaving{}
		e := hosted.NewWarm(d, hosted.Warm{Size: 2})
		defer e.Close()
		spec := sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true}
		e.Warm(spec)
		synctest.Wait()
		run := func() {
			t.Helper()
			if _, err := e.Run(t.Context(), engine.Job{Run: "r", Sandbox: spec, Program: bridge.Program{Language: "python", Source: "42"}}, nil); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		run()
		if diff := cmp.Diff([]float64{0, 0}, d.since()); diff != "" {
			t.Errorf("another waits, the starts differ (-want +got):\n%s", diff)
		}
		run()
		if diff := cmp.Diff([]float64{0, 0, 0}, d.since()); diff != "" {
			t.Errorf("no other waits, the starts differ (-want +got):\n%s", diff)
		}
		time.Sleep(time.Second)
		run()
		time.Sleep(time.Second)
		if diff := cmp.Diff([]float64{0, 0, 0, 0.025, 1.025}, d.since()); diff != "" {
			t.Errorf("the starts differ (-want +got):\n%s", diff)
		}
	})
}

func TestAWaitingGuestPreparesTheInterpreterThatTheLastProgramNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &leaving{}
		e := hosted.NewWarm(d, hosted.Warm{Size: 1, MaxAge: time.Minute})
		defer e.Close()
		spec := sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true}
		e.Warm(spec)
		for _, language := range []string{"javascript", "typescript", "shell", "python", "shell", "javascript"} {
			synctest.Wait()
			if _, err := e.Run(t.Context(), engine.Job{Run: "r", Sandbox: spec, Program: bridge.Program{Language: language, Source: "42"}}, nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute) // the last one becomes too old
		want := []string{"", "javascript", "javascript", "javascript", "", "", "javascript", ""}
		if diff := cmp.Diff(want, d.languages); diff != "" {
			t.Errorf("the prepared languages differ (-want +got):\n%s", diff)
		}
		if s := e.Stats()[0]; s.Taken != 6 || s.Drained != 0 {
			t.Errorf("the waiting sandboxes are of one kind: %+v", s)
		}
	})
}

// halting is a sandbox whose removal takes until removed is closed.
type halting struct {
	*inside
	halted  atomic.Bool
	removed chan struct{}
}

func (b *halting) Halt() { b.halted.Store(true) }

func (b *halting) Usage() sandbox.Usage { return sandbox.Usage{CPU: time.Second, PeakMemory: 7} }

func (b *halting) Kill(ctx context.Context) error {
	<-b.removed
	return b.inside.Kill(ctx)
}

func TestAnAnswerComesBeforeItsHaltedSandboxIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var b *halting
		d := &leaving{wrap: func(i *inside) sandbox.Sandbox {
			b = &halting{inside: i, removed: make(chan struct{})}
			return b
		}}
		e := hosted.New(d)
		job := engine.Job{Run: "r", StartAhead: true, Sandbox: sandbox.Spec{Profile: sandbox.Standard, Guest: os.Args[0], BestEffort: true}, Program: bridge.Program{Language: "python", Source: "42"}}
		got, err := e.Run(t.Context(), job, nil)
		if err != nil || got.Outcome.Value != int64(42) || got.CPU != time.Second || got.PeakMemory != 7 {
			t.Fatalf("%+v, %v", got, err)
		}
		if !b.halted.Load() || b.killed.Load() {
			t.Errorf("at the answer, halted: %v, removed: %v", b.halted.Load(), b.killed.Load())
		}
		closed := make(chan error, 1)
		go func() { closed <- e.Close() }()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close has returned before the sandbox was removed")
		default:
		}
		close(b.removed)
		if err := <-closed; err != nil || !b.killed.Load() {
			t.Errorf("after Close: %v, removed: %v", err, b.killed.Load())
		}

		// Of an attached program the folders, and of a failed one the end, are waited for.
		for _, change := range []func(*engine.Job, *leaving){
			func(j *engine.Job, _ *leaving) { j.Program.Attached = true },
			func(j *engine.Job, _ *leaving) { j.StartAhead = false },
			func(_ *engine.Job, d *leaving) { d.left = 1 },
		} {
			job, d := job, &leaving{wrap: d.wrap}
			change(&job, d)
			e, done := hosted.New(d), make(chan struct{})
			go func() {
				defer close(done)
				_, _ = e.Run(t.Context(), job, nil)
			}()
			synctest.Wait()
			select {
			case <-done:
				t.Error("the answer came before the sandbox was removed")
			default:
			}
			close(b.removed)
			<-done
		}
	})
}

// silent is a sandbox whose engine does not answer.
type silent struct{ *inside }

func (silent) Kill(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCloseWaitsForAllPoolsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := hosted.NewWarm(&leaving{wrap: func(i *inside) sandbox.Sandbox { return silent{i} }}, hosted.Warm{Size: 2})
		for _, profile := range []sandbox.Profile{sandbox.Standard, sandbox.Hardened, sandbox.Dev} {
			e.Warm(sandbox.Spec{Profile: profile, Guest: os.Args[0], BestEffort: true})
		}
		time.Sleep(time.Minute)
		for _, s := range e.Stats() {
			if s.Ready != 2 {
				t.Errorf("the pool %s is not filled: %+v", s.Profile, s)
			}
		}
		began := time.Now()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited > 11*time.Second {
			t.Errorf("Close took %s", waited)
		}
	})
}
