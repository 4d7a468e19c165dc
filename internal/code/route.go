package code

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/nearest"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/sandbox"
)

// candidate is an engine that may run a program, and why it was chosen.
type candidate struct {
	engine engine.Engine
	why    string
}

// hostRuntime must be asked for by name, and allowed by the config.
const hostRuntime = "host"

// need is what an engine must hold to run a program.
type need struct {
	spec      sandbox.Spec
	isolation policy.Isolation // the least; empty is none
}

// check tells why an engine does not hold it, nil when it does.
func (n need) check(name string, p sandbox.Probe) error {
	if err := sandbox.Check(name, p, n.spec); err != nil {
		return err
	}
	isolation := p.Isolation
	if n.spec.Runtime != "" {
		isolation = p.Runtimes[n.spec.Runtime]
	}
	if policy.Walls(isolation).Holds(n.isolation) {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy lets programs run in %s or stronger, and %s runs them in %s", n.isolation, name, cmp.Or(isolation, "none that it knows"))
	return e.WithHint("choose another runtime (toolroom doctor shows what each has), or see which rule asks for it: toolroom policy explain %s", Tool)
}

// splitRuntime takes docker/runsc apart: the driver, and the runtime below it.
func splitRuntime(name string) (driver, below string) {
	driver, below, _ = strings.Cut(name, "/")
	return driver, below
}

// candidates are the engines to try, in their order; never none. An engine or a
// runtime that is named is the only one.
func (s *Service) candidates(ctx context.Context, r *Request, n need) ([]candidate, error) {
	name := r.Engine
	runtime, _ := splitRuntime(r.Runtime)
	if runtime != "" {
		if name != "" && name != "auto" && name != runtime {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "engine %s and runtime %s are both named: a runtime brings its own interpreter", name, r.Runtime).
				WithHint("name one of them")
		}
		name = runtime
	}
	if name != "" && name != "auto" {
		return s.named(ctx, r, name, n)
	}
	var list []candidate
	var missing []string
	var stateless []string // engines that keep no sessions
	var refused error      // an engine is there, and cannot hold what was asked for
	for _, e := range s.o.Engines {
		if e.Name() == hostRuntime || !slices.Contains(e.Languages(), r.Language) {
			continue
		}
		if r.Session != "" && !keepsSessions(e, r.Language) {
			stateless = append(stateless, e.Name())
			continue
		}
		p := e.Probe(ctx)
		if p.State != sandbox.Available {
			missing = append(missing, fmt.Sprintf("%s: %s", e.Name(), p.Reason))
			continue
		}
		if err := n.check(e.Name(), p); err != nil {
			refused = err
			missing = append(missing, err.Error())
			continue
		}
		why := "the first engine for " + r.Language
		if len(missing) > 0 {
			why = fmt.Sprintf("the first available engine for %s (passed over: %s)", r.Language, strings.Join(missing, "; "))
		}
		list = append(list, candidate{e, why})
		if slices.Contains(e.Languages(), "command") {
			break // a guest with the real interpreter: what follows runs no more, and may be slow to probe
		}
	}
	if len(list) == 0 && len(missing) == 0 && len(stateless) > 0 {
		return nil, s.stateless(r.Language, stateless)
	}
	if len(list) == 0 && refused != nil {
		return nil, refused
	}
	if len(list) == 0 {
		if len(missing) == 0 {
			missing = []string{"none of the configured runtimes does"}
		}
		e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "no sandbox here can run %s: %s", r.Language, strings.Join(missing, "; "))
		return nil, e.WithHint("toolroom doctor shows what is missing and how to get it; without a sandbox code runs only with --runtime host, where the config allows it")
	}
	return list, nil
}

func (s *Service) named(ctx context.Context, r *Request, name string, n need) ([]candidate, error) {
	var names []string
	for _, e := range s.o.Engines {
		if e.Name() != name {
			names = append(names, e.Name())
			continue
		}
		if name == hostRuntime && !s.o.Config.Host {
			return nil, toolroom.Errorf(toolroom.CodeDenied, "the runtime host is no sandbox, and the configuration does not allow it").
				WithHint("use another runtime, or write code: {host: true} into toolroom.yaml if programs may do all that you may")
		}
		if !slices.Contains(e.Languages(), r.Language) {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s does not run %s, only %s", name, r.Language, strings.Join(e.Languages(), ", "))
		}
		if r.Session != "" && !keepsSessions(e, r.Language) {
			return nil, s.stateless(r.Language, []string{name})
		}
		if err := n.check(name, e.Probe(ctx)); err != nil {
			return nil, err
		}
		return []candidate{{e, "it was asked for"}}, nil
	}
	err := toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no engine or runtime %q", name)
	if near, ok := nearest.Of(name, names); ok {
		return nil, err.WithHint("did you mean %s?", near)
	}
	return nil, err.WithHint("there are auto, %s", strings.Join(names, ", "))
}
