package enginetest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
)

// sessions tests an engine that keeps state, in one language.
func (s *suite) sessions(t *testing.T, language string) {
	stateful, ok := s.engine.(engine.SessionEngine)
	if !ok || !slices.Contains(stateful.Sessions(), language) {
		t.Run("a session is refused where none can be kept", func(t *testing.T) {
			j := s.job(language, "1")
			j.Program.Session = "s"
			result, err := s.engine.Run(t.Context(), j, newCallHandler())
			refused := result != nil && result.Outcome.Failure != nil && result.Outcome.Failure.Kind == bridge.FailUnsupported
			if err == nil && !refused && len(result.Outcome.State) > 0 {
				t.Errorf("the engine keeps state and does not say so: %+v", result)
			}
		})
		return
	}
	for _, c := range sessionCases {
		if _, ok := c.steps[language]; ok && !s.isSkipped(c.key) {
			t.Run(c.key, func(t *testing.T) { s.runSession(t, language, c) })
		}
	}
	t.Run("a fork of a session is apart from it", func(t *testing.T) { s.forkSession(t, language) })
	t.Run("random numbers of a session differ from run to run", func(t *testing.T) { s.newSeed(t, language) })
	t.Run("state that is none is refused", func(t *testing.T) { s.forgedState(t, language) })
}

// step is one run of a session.
type step struct {
	source string
	inputs bridge.Map
	value  bridge.Value
	stdout string
	// If failure is set, the program must fail with this kind. If runError is set, the run
	// must end with this error. In both cases the value does not matter.
	failure  bridge.FailureKind
	runError toolroom.Code
}

// sessionCase is one behaviour, shown by runs one after the other.
type sessionCase struct {
	key   string
	steps map[string][]step
}

var sessionCases = []sessionCase{
	{"variables live across runs", map[string][]step{
		"javascript": {
			{source: "const a = 1; let b = [a]; var c; function f(x) { return x + a } class P { n = 5 }"},
			{source: "b.push(f(1)); c = new P(); b", value: []bridge.Value{int64(1), int64(2)}},
			{source: "return [a, b, c.n, new P() instanceof P]", value: []bridge.Value{int64(1), []bridge.Value{int64(1), int64(2)}, int64(5), true}},
		},
		"python": {
			{source: "a = 1\nb = [a]\ndef f(x):\n    return x + a"},
			{source: "b.append(f(1))\nb", value: []bridge.Value{int64(1), int64(2)}},
		},
	}},
	{"a name can be declared again, and functions see it", map[string][]step{
		"javascript": {
			{source: "const n = 1; const get = () => n + helper(); function helper() { return 10 }"},
			{source: "const n = 2; function helper() { return 20 }"},
			{source: "get()", value: int64(22)},
		},
		"python": {
			{source: "n = 1\ndef helper():\n    return 10\ndef get():\n    return n + helper()"},
			{source: "n = 2\ndef helper():\n    return 20"},
			{source: "get()", value: int64(22)},
		},
	}},
	{"inputs and results of tools live on", map[string][]step{
		"javascript": {
			{source: "const sum = await tools.math.add({a: base, b: 2})", inputs: bridge.Map{{Key: "base", Value: int64(40)}}},
			{source: "[base, sum, await tools.math.add({a: sum, b: 1})]", value: []bridge.Value{int64(40), int64(42), int64(43)}},
		},
		"python": {
			{source: "sum_ = tools.math.add(a=base, b=2)", inputs: bridge.Map{{Key: "base", Value: int64(40)}}},
			{source: "[base, sum_, tools.math.add(a=sum_, b=1)]", value: []bridge.Value{int64(40), int64(42), int64(43)}},
		},
	}},
	{"an input does not replace a variable", map[string][]step{
		"javascript": {
			{source: "const kept = 1"},
			{source: "kept", inputs: bridge.Map{{Key: "kept", Value: int64(2)}}, runError: toolroom.CodeConflict},
			{source: "kept", value: int64(1)},
		},
	}},
	{"a failed run keeps what it has done", map[string][]step{
		"javascript": {
			{source: "const before = 1; null.x; const after = 2", failure: bridge.FailProgram},
			{source: "[before, after === undefined]", value: []bridge.Value{int64(1), true}},
			{source: "syntax error", failure: bridge.FailSyntax},
			{source: "before = 3; await tools.fail.always()", failure: bridge.FailProgram},
			{source: "before", value: int64(3)},
		},
		"python": {
			{source: "before = 1\n1 / 0", failure: bridge.FailProgram},
			{source: "before", value: int64(1)},
		},
	}},
	{"a run that is stopped is as if it had not been", map[string][]step{
		"javascript": {
			{source: "const list = [1]"},
			{source: "list.push(2); for (;;) {}", runError: toolroom.CodeTimeout},
			{source: "list", value: []bridge.Value{int64(1)}},
		},
		"python": {
			{source: "list_ = [1]"},
			{source: "list_.append(2)\nwhile True: pass", runError: toolroom.CodeTimeout},
			{source: "list_", value: []bridge.Value{int64(1)}},
		},
	}},
	{"what a run leaves under way does not disturb the next", map[string][]step{
		"javascript": {
			{source: "setTimeout(() => { globalThis.late = 1 }, 60000); const held = []; for (let i = 0; i < 3; i++) Promise.resolve(i).then(v => held.push(v)); print('x')", stdout: "x\n"},
			{source: "[typeof late, held.length, await tools.math.add({a: 1, b: 1})]", value: []bridge.Value{"undefined", int64(3), int64(2)}},
			{source: "tools.slow.wait(); 1", failure: bridge.FailCheck},
			{source: "const pending = [tools.slow.wait()]; 1", failure: bridge.FailCheck},
			{source: "await tools.math.add({a: 2, b: 2})", value: int64(4)},
		},
	}},
	{"a variable with the name of a tool's namespace is the variable", map[string][]step{
		"javascript": {
			{source: "await math.add({a: 1, b: 2})", value: int64(3)},
			{source: "const math = {twice: (n) => 2 * n}; math.twice(4)", value: int64(8)},
			{source: "[math.twice(5), await tools.math.add({a: 1, b: 1})]", value: []bridge.Value{int64(10), int64(2)}},
		},
	}},
	{"builtins and functions of Toolroom are not replaced", map[string][]step{
		"javascript": {
			{source: "const tools = 1", failure: bridge.FailSyntax},
			{source: "function Promise() {}", failure: bridge.FailSyntax},
			{source: "await tools.math.add({a: 1, b: 2})", value: int64(3)},
		},
	}},
}

func (s *suite) runSession(t *testing.T, language string, c sessionCase) {
	var state []byte
	for i, step := range c.steps[language] {
		state = s.runStep(t, language, i, step, state)
	}
}

// runStep runs a step from a state. It returns the new state if the run ended by itself, else the
// old one, as code mode does.
func (s *suite) runStep(t *testing.T, language string, i int, step step, state []byte) []byte {
	t.Helper()
	j := s.job(language, step.source)
	j.Program.Session, j.Program.State, j.Program.Inputs = "s", state, step.inputs
	if step.runError == toolroom.CodeTimeout {
		j.Program.Limits.Wall = 700
	}
	r := newCallHandler()
	result, err := s.engine.Run(t.Context(), j, r)
	if step.runError != "" {
		if toolroom.CodeOf(err) != step.runError {
			t.Fatalf("step %d ended with %v, want %s", i, err, step.runError)
		}
		return state
	}
	if err != nil {
		t.Fatalf("step %d broke off: %v", i, err)
	}
	f := result.Outcome.Failure
	switch {
	case step.failure == "" && f != nil:
		t.Fatalf("step %d failed: %v\n%s", i, f, f.Trace)
	case step.failure != "" && (f == nil || f.Kind != step.failure):
		t.Fatalf("step %d ended with %+v, want a failure of kind %s", i, f, step.failure)
	case step.failure == "":
		if diff := cmp.Diff(step.value, result.Outcome.Value); step.value != nil && diff != "" {
			t.Fatalf("the value of step %d differs (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(step.stdout, r.stdout.String()); diff != "" {
			t.Fatalf("stdout of step %d differs (-want +got):\n%s", i, diff)
		}
		if len(result.Outcome.State) == 0 {
			t.Fatalf("step %d gave no state", i)
		}
	}
	if len(result.Outcome.State) > 0 {
		return result.Outcome.State
	}
	return state
}

func (s *suite) forkSession(t *testing.T, language string) {
	sources := map[string][3]string{
		"javascript": {"const list = [1]", "list.push(2); list", "list"},
		"python":     {"list_ = [1]", "list_.append(2)\nlist_", "list_"},
	}[language]
	begun := s.runStep(t, language, 0, step{source: sources[0]}, nil)
	went := s.runStep(t, language, 1, step{source: sources[1], value: []bridge.Value{int64(1), int64(2)}}, begun)
	s.runStep(t, language, 2, step{source: sources[2], value: []bridge.Value{int64(1)}}, begun)
	s.runStep(t, language, 3, step{source: sources[2], value: []bridge.Value{int64(1), int64(2)}}, went)
}

func (s *suite) newSeed(t *testing.T, language string) {
	source := map[string]string{"javascript": "Math.random()", "python": "import random\nrandom.random()"}[language]
	state := s.runStep(t, language, 0, step{source: source}, nil)
	seen := map[any]bool{}
	for i := range 5 {
		j := s.job(language, source)
		j.Program.Session, j.Program.State = "s", state
		result, err := s.engine.Run(t.Context(), j, newCallHandler())
		if err != nil || result.Outcome.Failure != nil {
			t.Fatalf("%+v, %v", result, err)
		}
		if seen[result.Outcome.Value] {
			t.Errorf("run %d from one state drew %v again", i, result.Outcome.Value)
		}
		seen[result.Outcome.Value] = true
	}
}

func (s *suite) forgedState(t *testing.T, language string) {
	begun := s.runStep(t, language, 0, step{source: map[string]string{"javascript": "const a = 1", "python": "a = 1"}[language]}, nil)
	cut := begun[:len(begun)/2]
	turned := slices.Clone(begun)
	for i := len(turned) / 3; i < len(turned)/3+20; i++ {
		turned[i] ^= 0xff
	}
	for name, state := range map[string][]byte{"text": []byte("hello"), "cut": cut, "turned": turned} {
		j := s.job(language, "1")
		j.Program.Session, j.Program.State = "s", state
		result, err := s.engine.Run(t.Context(), j, newCallHandler())
		if err == nil && result.Outcome.Failure == nil {
			t.Errorf("%s: the run took it", name)
		}
	}
	s.checkStillWorks(t, language)
}
