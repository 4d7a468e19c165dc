package code

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// walls is an engine that says what stands around its programs.
type walls struct{ name, isolation string }

func (w walls) Name() string        { return w.name }
func (w walls) Languages() []string { return []string{"python"} }
func (w walls) Close() error        { return nil }
func (w walls) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{
		State: sandbox.Available, Isolation: w.isolation,
		Runtimes: map[string]string{"weak": "docker(runc)", "strong": "docker+gvisor(runsc)"},
	}
}

func (w walls) Run(context.Context, engine.Job, bridge.Handler) (*engine.Result, error) {
	return &engine.Result{Engine: w.name, Isolation: w.isolation}, nil
}

func TestAnEngineThatIsWeakerThanPolicyAsksIsPassedOver(t *testing.T) {
	t.Parallel()
	s := New(Options{Config: Config{Host: true}, Engines: []engine.Engine{
		walls{"filter", "landlock+seccomp"}, walls{"process", "ns+net+landlock+seccomp"}, walls{"runsc", "gvisor(systrap)"}, walls{"host", "none"},
	}})
	for _, c := range []struct {
		runtime string
		least   toolroom.Isolation
		want    string // the engines to try, or a part of the error
	}{
		{"", "", "filter process runsc"},
		{"", toolroom.IsolationNone, "filter process runsc"},
		{"", toolroom.IsolationProcess, "filter process runsc"},
		{"", toolroom.IsolationContainer, "process runsc"},
		{"", toolroom.IsolationGVisor, "runsc"},
		{"", toolroom.IsolationVM, "policy requires isolation vm or stronger"},
		{"host", "", "host"},
		{"host", toolroom.IsolationProcess, "host provides none"},
		{"process", toolroom.IsolationGVisor, "process provides ns+net+landlock+seccomp"},
		{"runsc", toolroom.IsolationGVisor, "runsc"},
		{"runsc/weak", toolroom.IsolationGVisor, "runsc provides docker(runc)"},
		{"runsc/unheard-of", toolroom.IsolationGVisor, "runsc provides none"},
		{"process/strong", toolroom.IsolationGVisor, "process"},
	} {
		_, below := splitRuntime(c.runtime)
		first, further, err := s.route(t.Context(), &Request{Program: toolroom.Program{Language: "python", Runtime: c.runtime}}, need{sandbox.Spec{Profile: sandbox.Dev, Runtime: below}, c.least, ""})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
				t.Errorf("%s in %s: %v", c.runtime, c.least, err)
			}
			continue
		}
		var names []string
		for one, ok := first, true; ok; one, ok = further.next(t.Context()) {
			names = append(names, one.engine.Name())
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s in %s: %s, want %s", c.runtime, c.least, got, c.want)
		}
	}
}

func TestWhatAProgramWouldRunInIsKnownBeforeItRuns(t *testing.T) {
	t.Parallel()
	s := New(Options{Engines: []engine.Engine{walls{"filter", "landlock+seccomp"}, walls{"runsc", "gvisor(systrap)"}, walls{"host", "none"}}})
	for _, c := range []struct{ runtime, least, want string }{
		{"", "", "landlock+seccomp"},
		{"", "container", "gvisor(systrap)"},
		{"", "vm", ""},
		{"runsc", "", "gvisor(systrap)"},
		{"runsc/weak", "", "docker(runc)"},
		{"filter", "gvisor", ""},
		{"host", "", ""}, // which the config does not allow
		{"unheard-of", "", ""},
	} {
		got := s.Isolation(t.Context(), &source.Request{
			Arguments: json.RawMessage(fmt.Sprintf(`{"language": "python", "code": "1", "profile": "dev", "best_effort": true, "runtime": %q}`, c.runtime)), Isolation: c.least,
		})
		if got != c.want {
			t.Errorf("%q for %q: %q, want %q", c.runtime, c.least, got, c.want)
		}
	}
	if got := s.Isolation(t.Context(), &source.Request{Arguments: json.RawMessage(`{"language": "python"}`)}); got != "" {
		t.Errorf("of no program: %q", got)
	}
}

// keeper is an engine that keeps sessions.
type keeper struct{ walls }

func (keeper) Sessions() []string { return []string{"python"} }

func TestAProgramThatItsEngineCannotRunIsToldOfOthers(t *testing.T) {
	t.Parallel()
	s := New(Options{Engines: []engine.Engine{keeper{walls{name: "small"}}, walls{name: "process"}, keeper{walls{name: "whole"}}, walls{name: "host"}}})
	for _, c := range []struct {
		program bridge.Program
		want    string
	}{
		{bridge.Program{Language: "python"}, "omit the engine to choose automatically, or use process, whole"},
		{bridge.Program{Language: "python", Session: "work"}, "a session stays on its first engine: start another one with engine whole"},
		{bridge.Program{Language: "shell"}, ""},
	} {
		if got := s.suggestEngines("small", c.program); got != c.want {
			t.Errorf("%+v: %q", c.program, got)
		}
	}
}

func TestAnEngineThatPolicyNamesIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	s := New(Options{Engines: []engine.Engine{walls{"process", "ns+net"}, walls{"runsc", "gvisor(systrap)"}}})
	for _, c := range []struct{ runtime, engine, least, want string }{
		{"", "runsc", "", "runsc"},
		{"runsc", "runsc", "gvisor", "runsc"},
		{"process", "runsc", "", "engine runsc, not process"},
		{"", "unheard-of", "", "process: policy requires engine unheard-of"},
		{"", "process", "gvisor", "process provides ns+net"},
	} {
		first, further, err := s.route(t.Context(), &Request{Program: toolroom.Program{Language: "python", Runtime: c.runtime}}, need{sandbox.Spec{Profile: sandbox.Dev}, toolroom.Isolation(c.least), c.engine})
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if next, more := further.next(t.Context()); first.engine.Name() != c.want || more {
			t.Errorf("%+v: first %s, then %v", c, first.engine.Name(), next)
		}
	}
}
