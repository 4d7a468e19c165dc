package code

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// candidate is an engine that may run a program, with the reason for the choice.
type candidate struct {
	engine    engine.Engine
	why       string
	isolation string // the isolation layers that the engine reports
}

// hostRuntime must be requested by name and permitted by the config.
const hostRuntime = "host"

// usesHostRuntime reports whether the request names the runtime host, also in the form host/.
func (r *Request) usesHostRuntime() bool {
	driver, _ := splitRuntime(r.Runtime)
	return r.Engine == hostRuntime || driver == hostRuntime
}

// need is what an engine must provide to run a program.
type need struct {
	spec      sandbox.Spec
	isolation toolroom.Isolation // the minimum; empty means none
	engine    string             // the only permitted engine; empty means any
}

// layers returns the isolation layers that an engine with this probe would put around the
// program.
func (n need) layers(p sandbox.Probe) string {
	if n.spec.Runtime != "" {
		return p.Runtimes[n.spec.Runtime]
	}
	return p.Isolation
}

// check returns an error if an engine does not provide what is needed.
func (n need) check(name string, p sandbox.Probe) error {
	if n.engine != "" && n.engine != name {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires engine %s, not %s", n.engine, name).
			WithCLIHint("see which rule asks for it: toolroom policy explain %s", Tool)
	}
	if err := sandbox.Check(name, p, n.spec); err != nil {
		return err
	}
	isolation := n.layers(p)
	if policy.AtLeast(policy.IsolationOf(isolation), n.isolation) {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires isolation %s or stronger, but %s provides %s", n.isolation, name, cmp.Or(isolation, "none"))
	return e.WithHint("choose another runtime").WithCLIHint("toolroom doctor shows what each has; toolroom policy explain %s shows which rule asks for it", Tool)
}

// splitRuntime splits docker/runsc into the driver and the runtime below it.
func splitRuntime(name string) (driver, below string) {
	driver, below, _ = strings.Cut(name, "/")
	return driver, below
}

// route finds the engines to try, in order. It probes an engine only when its turn comes,
// because probing some engines starts them.
type route struct {
	service  *Service
	language string
	stateful bool
	need     need
	rest     []engine.Engine
	named    bool // the request or its session names the engine

	skipped     []string // why engines were skipped
	stateless   []string // engines without sessions
	lastRefusal error    // an engine is available, but does not provide what is needed
}

// route returns the first engine to try, and the route to the others. A named engine or
// runtime is the only one.
func (s *Service) route(ctx context.Context, r *Request, n need) (candidate, *route, error) {
	name := r.Engine
	runtime, _ := splitRuntime(r.Runtime)
	if runtime != "" {
		if name != "" && name != "auto" && name != runtime {
			return candidate{}, nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "both engine %s and runtime %s are set, but a runtime has its own interpreter", name, r.Runtime).
				WithHint("set one of them")
		}
		name = runtime
	}
	if name != "" && name != "auto" {
		c, err := s.namedEngine(ctx, r, name, n)
		return c, &route{named: true}, err
	}
	t := &route{service: s, language: r.Language, stateful: r.Session != "", need: n, rest: s.o.Engines}
	if c, ok := t.next(ctx); ok {
		return c, t, nil
	}
	return candidate{}, nil, t.noEngineError()
}

// Isolation implements [source.Sandboxed]. It selects an engine like a call would.
func (s *Service) Isolation(ctx context.Context, req *source.Request) string {
	r, err := parse(req.Arguments)
	if err != nil {
		return ""
	}
	if driver, _ := splitRuntime(r.Runtime); s.o.Remote != nil && driver == s.o.Remote.Name() {
		return "" // the worker chooses
	}
	limits, err := r.limits(s.o.Config)
	if err != nil {
		return ""
	}
	c, _, err := s.route(ctx, r, need{s.spec(r, limits), toolroom.Isolation(req.Isolation), req.Engine})
	if err != nil {
		return ""
	}
	return c.isolation
}

// next returns the next engine that can run the program; false if there is none.
func (t *route) next(ctx context.Context) (candidate, bool) {
	for len(t.rest) > 0 {
		e := t.rest[0]
		t.rest = t.rest[1:]
		if e.Name() == hostRuntime || !slices.Contains(e.Languages(), t.language) {
			continue
		}
		if t.stateful && !keepsSessions(e, t.language) {
			t.stateless = append(t.stateless, e.Name())
			continue
		}
		if t.need.engine != "" && t.need.engine != e.Name() {
			t.skipped = append(t.skipped, fmt.Sprintf("%s: policy requires engine %s", e.Name(), t.need.engine))
			continue
		}
		p := e.Probe(ctx)
		if p.State != sandbox.Available {
			t.skipped = append(t.skipped, fmt.Sprintf("%s: %s", e.Name(), p.Reason))
			continue
		}
		if err := t.need.check(e.Name(), p); err != nil {
			t.lastRefusal = err
			t.skipped = append(t.skipped, err.Error())
			continue
		}
		if slices.Contains(e.Languages(), "command") {
			t.rest = nil // this guest has the real interpreter, so later engines cannot run more, and may be slow to probe
		}
		why := "the first engine for " + t.language
		if len(t.skipped) > 0 {
			why = fmt.Sprintf("the first available engine for %s (passed over: %s)", t.language, strings.Join(t.skipped, "; "))
		}
		return candidate{e, why, t.need.layers(p)}, true
	}
	return candidate{}, false
}

// noEngineError returns the error that says why no engine can run the program.
func (t *route) noEngineError() error {
	switch {
	case len(t.skipped) == 0 && len(t.stateless) > 0:
		return t.service.noSessionsError(t.language, t.stateless)
	case t.lastRefusal != nil:
		return t.lastRefusal
	case len(t.skipped) == 0:
		t.skipped = []string{"none of the configured runtimes does"}
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no sandbox here can run %s: %s", t.language, strings.Join(t.skipped, "; "))
	return e.WithHint("without a sandbox, programs run only in the runtime host, if the config allows it").WithCLIHint("toolroom doctor shows what is missing and how to get it")
}

// suggestEngines returns a hint with other engines for a program that the named engine cannot
// run, or "".
func (s *Service) suggestEngines(name string, p bridge.Program) string {
	var others []string
	for _, e := range s.o.Engines {
		runs := slices.Contains(e.Languages(), p.Language) && (p.Session == "" || keepsSessions(e, p.Language))
		if runs && e.Name() != name && e.Name() != hostRuntime {
			others = append(others, e.Name())
		}
	}
	switch {
	case len(others) == 0:
		return ""
	case p.Session != "":
		return fmt.Sprintf("a session stays on its first engine: start another one with engine %s", strings.Join(others, " or "))
	}
	return fmt.Sprintf("omit the engine to choose automatically, or use %s", strings.Join(others, ", "))
}

// namedEngine returns the engine that the request names, or why it cannot run the program.
func (s *Service) namedEngine(ctx context.Context, r *Request, name string, n need) (candidate, error) {
	var names []string
	for _, e := range s.o.Engines {
		if e.Name() != name {
			names = append(names, e.Name())
			continue
		}
		if name == hostRuntime && !s.o.Config.Host {
			return candidate{}, toolroom.Errorf(toolroom.CodeDenied, "the runtime host is not a sandbox, and the config does not allow it").
				WithHint("use another runtime, or write code: {host: true} into toolroom.yaml if programs may do everything that you may")
		}
		if !slices.Contains(e.Languages(), r.Language) {
			return candidate{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s does not run %s, only %s", name, r.Language, strings.Join(e.Languages(), ", "))
		}
		if r.Session != "" && !keepsSessions(e, r.Language) {
			return candidate{}, s.noSessionsError(r.Language, []string{name})
		}
		p := e.Probe(ctx)
		if err := n.check(name, p); err != nil {
			return candidate{}, err
		}
		return candidate{e, "it was asked for", n.layers(p)}, nil
	}
	err := toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no engine or runtime %q", name)
	if near, ok := nearest.Of(name, names); ok {
		return candidate{}, err.WithHint("did you mean %s?", near)
	}
	return candidate{}, err.WithHint("there are auto, %s", strings.Join(names, ", "))
}
