// Package enginetest is the test suite that every engine passes. It runs the same
// programs in each language of the engine, with the same tools.
package enginetest

import (
	"context"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures the suites.
type Options struct {
	// New returns the engine, which the suite closes.
	New func(t *testing.T) engine.Engine
	// Languages to test, of python and javascript; all languages of the engine if
	// empty.
	Languages []string
	// Sandbox is the sandbox spec of every job, for engines that use one.
	Sandbox sandbox.Spec
	// Without lists what the engine cannot do by design, as keys of subtests; see the
	// table of behaviours. The docs describe what the engine enforces.
	Without []string
	// Only, if set, lists the subtests of [Run] to run instead of all.
	Only []string
	// Memory is the memory limit of bad programs in bytes, 64 MiB if zero.
	Memory int64
	// Stream is the file descriptor of the stream to the server in a program, 0 if
	// programs cannot access it.
	Stream int
	// Bare means that its languages have no access to the system at all; a missing
	// feature counts as refused.
	Bare bool
	// Runs limits how often something is repeated, for engines that start a sandbox
	// for each run; 0 means as often as the suites want, 10,000 times in [Leak].
	Runs int
	// Module is the suite's own WebAssembly module, as [BuildModule] makes it, for
	// engines that run wasm. Its first argument names one of its programs, which is
	// that program's source.
	Module []byte
	// Bad holds further bad programs, for this engine only.
	Bad []BadProgram
}

// Run runs the suite.
func Run(t *testing.T, o Options) {
	s := newSuite(t, o)
	for _, language := range s.languages() {
		t.Run(language, func(t *testing.T) {
			for _, c := range programs {
				source, ok := c.source[language]
				if !ok || s.isSkipped(c.key) {
					continue
				}
				t.Run(c.key, func(t *testing.T) { s.check(t, language, source, c) })
			}
			for _, behaviour := range []struct {
				key  string
				test func(*testing.T, string)
			}{
				{"values round trip", s.values},
				{"time in which a person is asked does not count", s.waitsForPerson},
				{"a cancelled program is stopped", s.cancelRun},
				{"runs see nothing of each other", s.stateOfRuns},
				{"sessions", s.sessions},
				{"half a processor is held, or refused", s.halfProcessor},
			} {
				if !s.isSkipped(behaviour.key) {
					t.Run(behaviour.key, func(t *testing.T) { behaviour.test(t, language) })
				}
			}
		})
	}
}

// newSuite returns the suite for the engine of o, which the test closes at its end.
func newSuite(t *testing.T, o Options) *suite {
	e := o.New(t)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
	if p := e.Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%s is not available: %s (%s)", e.Name(), p.Reason, p.Fix)
	}
	if o.Memory == 0 {
		o.Memory = 64 << 20
	}
	return &suite{engine: e, options: o}
}

// languages returns the languages to test.
func (s *suite) languages() []string {
	list := s.options.Languages
	if list == nil {
		list = s.engine.Languages()
	}
	return slices.DeleteFunc(slices.Clone(list), func(l string) bool { return l != "python" && l != "javascript" && l != "wasm" })
}

type suite struct {
	engine  engine.Engine
	options Options
}

func (s *suite) isSkipped(key string) bool {
	only := s.options.Only
	return slices.Contains(s.options.Without, key) || len(only) > 0 && !slices.Contains(only, key)
}

func (s *suite) job(language, source string) engine.Job {
	name := map[string]string{"python": "main.py", "javascript": "main.js", "wasm": "main.wasm"}[language]
	if language == "wasm" {
		return engine.Job{
			Run: "run-test", Owner: "tester", Sandbox: s.options.Sandbox,
			Program: bridge.Program{Language: language, Name: name, Module: s.options.Module, Command: strings.Fields(source), Limits: bridge.Limits{Wall: 120_000}},
		}
	}
	return engine.Job{
		Run: "run-test", Owner: "tester", Sandbox: s.options.Sandbox,
		Program: bridge.Program{Language: language, Name: name, Source: source, Tools: tools(), Limits: bridge.Limits{Wall: 120_000}},
	}
}

func (s *suite) check(t *testing.T, language, source string, c program) {
	t.Helper()
	j := s.job(language, source)
	j.Program.Inputs = c.inputs
	j.Program.Withheld, j.Program.Unknown = c.withheld, c.unknown
	if c.limits != (bridge.Limits{}) {
		j.Program.Limits = c.limits
		j.Program.Limits.Wall = 120_000
	}
	r := newCallHandler()
	result, err := s.engine.Run(t.Context(), j, r)
	if c.code != "" {
		if toolroom.CodeOf(err) != c.code {
			t.Fatalf("the run ended with %v, want an error %s (%+v)", err, c.code, result)
		}
		return
	}
	if err != nil {
		t.Fatalf("the run broke off: %v", err)
	}
	if result.Engine == "" || result.Isolation == "" {
		t.Errorf("the result does not name the engine and isolation: %+v", result)
	}
	f := result.Outcome.Failure
	switch {
	case c.failure == nil && f != nil:
		t.Fatalf("the program failed: %s %v\n%s", f.Kind, f, f.Trace)
	case c.failure != nil && f == nil:
		t.Fatalf("the program did not fail; its value is %v", result.Outcome.Value)
	case c.failure != nil:
		c.failure(t, f)
	default:
		if diff := cmp.Diff(c.value, result.Outcome.Value, bigInts); diff != "" {
			t.Errorf("the value differs (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(c.stdout, r.stdout.String()); diff != "" {
		t.Errorf("stdout differs (-want +got):\n%s", diff)
	}
	if c.stderr != "" && !strings.Contains(r.stderr.String(), c.stderr) {
		t.Errorf("stderr is %q, want %q in it", r.stderr.String(), c.stderr)
	}
	if c.after != nil {
		c.after(t, r)
	}
}

var bigInts = cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })

// values passes values of every type through a program: as inputs, through a tool, and as the
// result.
func (s *suite) values(t *testing.T, language string) {
	huge, _ := new(big.Int).SetString("-123456789012345678901234567890", 10)
	values := []bridge.Value{
		nil, true, false, int64(0), int64(-1), int64(1<<53 + 1), int64(-1 << 62), huge, 1.5, -0.25, "", "grüße \u0000 🦜 \u2028",
		[]byte{0, 1, 255},
		time.Date(2026, 11, 21, 7, 30, 0, 123_000_000, time.UTC),
		[]bridge.Value{},
		bridge.Map{},
		bridge.Map{{Key: "z", Value: int64(1)}, {Key: "a b", Value: []bridge.Value{bridge.Map{{Key: "__proto__", Value: int64(2)}}}}},
	}
	source := map[string]string{
		"python":     "back = tools.echo.value(value=given)\nassert type(back) is type(given)\nback",
		"javascript": "return await tools.echo.value({value: given})",
		"wasm":       "echo",
	}[language]
	j := s.job(language, source)
	j.Program.Inputs = bridge.Map{{Key: "given", Value: values}}
	result, err := s.engine.Run(t.Context(), j, newCallHandler())
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Outcome.Failure; f != nil {
		t.Fatalf("%v\n%s", f, f.Trace)
	}
	got, _ := result.Outcome.Value.([]bridge.Value)
	if len(got) != len(values) {
		t.Fatalf("sent %d values, got %v", len(values), result.Outcome.Value)
	}
	times := cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })
	for i, want := range values {
		if diff := cmp.Diff(want, got[i], bigInts, times); diff != "" {
			t.Errorf("%v came back as another value (-sent +got):\n%s", want, diff)
		}
	}
}

// minTime is the shortest time limit of a program that waits for a person.
const minTime = 4 * time.Second

func (s *suite) waitsForPerson(t *testing.T, language string) {
	source := map[string]string{"python": "call_tool('slow:person')", "javascript": "return await call_tool('slow:person')", "wasm": "call slow:person"}[language]
	began := time.Now()
	s.checkStillWorks(t, language)
	wall := max(minTime, 5*time.Since(began)) // enough for this machine under its present load
	j, r := s.job(language, source), newCallHandler()
	j.Program.Limits.Wall, r.askTime = wall.Milliseconds(), wall+time.Second
	result, err := s.engine.Run(t.Context(), j, r)
	if err != nil || result.Outcome.Failure != nil || result.Outcome.Value != bridge.Value("yes") {
		t.Errorf("the program got %+v, %v", result, err)
	}
}

func (s *suite) cancelRun(t *testing.T, language string) {
	source := map[string]string{"python": "tools.slow.wait()", "javascript": "await tools.slow.wait()", "wasm": "call slow:wait"}[language]
	ctx, cancel := context.WithCancel(t.Context())
	r := newCallHandler()
	go func() {
		for called := false; !called; time.Sleep(time.Millisecond) {
			r.mu.Lock()
			called = len(r.calls) > 0
			r.mu.Unlock()
		}
		cancel()
	}()
	result, err := s.engine.Run(ctx, s.job(language, source), r)
	failedAsCancelled := err == nil && result.Outcome.Failure != nil && result.Outcome.Failure.Kind == bridge.FailCancelled
	if toolroom.CodeOf(err) != toolroom.CodeCancelled && !failedAsCancelled {
		t.Errorf("the run ended with %v, want it cancelled", err)
	}
	if r.cancelled != 1 {
		t.Errorf("%d calls were cancelled with their program, want 1", r.cancelled)
	}
	s.checkStillWorks(t, language)
}

func (s *suite) checkStillWorks(t *testing.T, language string) {
	t.Helper()
	source := map[string]string{"python": "1 + 1", "javascript": "return 1 + 1", "wasm": "two"}[language]
	result, err := s.engine.Run(t.Context(), s.job(language, source), newCallHandler())
	if err != nil || result.Outcome.Failure != nil || result.Outcome.Value != bridge.Value(int64(2)) {
		t.Errorf("the next program got %+v, %v", result, err)
	}
}

// stateOfRuns leaves state in one run and looks for it in later runs.
func (s *suite) stateOfRuns(t *testing.T, language string) {
	leave := map[string]string{
		"python":     "import builtins, sys\nbuiltins.leak = 1\nsys.leak = 1\ntools.leak = 1\nleak = 1\nstr",
		"javascript": "globalThis.leak = 1; Object.prototype.leak = 1; tools.leak = 1; Array.prototype.map = () => 'leak'; Promise.leak = 1",
		"wasm":       "leave",
	}[language]
	look := map[string]string{
		"python":     "import builtins, sys\n[hasattr(builtins, 'leak'), hasattr(sys, 'leak'), 'leak' in globals(), list(map(int, '12'))]",
		"javascript": "return [typeof leak !== 'undefined', ({}).leak !== undefined, Promise.leak !== undefined, [1, 2].map(x => x)]",
		"wasm":       "look",
	}[language]
	want := []bridge.Value{false, false, false, []bridge.Value{int64(1), int64(2)}}
	for range 3 {
		if _, err := s.engine.Run(t.Context(), s.job(language, leave), newCallHandler()); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		result, err := s.engine.Run(t.Context(), s.job(language, look), newCallHandler())
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%+v, %v", result, err)
		}
		if diff := cmp.Diff(want, result.Outcome.Value); diff != "" {
			t.Errorf("a later run sees an earlier one (-want +got):\n%s", diff)
		}
	}
}

// halfProcessor requests half a processor. An engine must enforce that or refuse the job.
func (s *suite) halfProcessor(t *testing.T, language string) {
	if s.options.Sandbox.Guest != "" {
		return // its driver decides, and has its own suite
	}
	j := s.job(language, map[string]string{"python": "1", "javascript": "1", "wasm": "seven"}[language])
	j.Sandbox.Limits.CPUs = 0.5
	result, err := s.engine.Run(t.Context(), j, newCallHandler())
	if toolroom.CodeOf(err) != toolroom.CodeLimitNotEnforceable && (err != nil || result.Outcome.Failure == nil) {
		t.Errorf("the program ran anyway: %+v, %v", result, err)
	}
}
