package app

import (
	"cmp"
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/source"
)

// sandboxedSource is a source whose program runs in a sandbox of the config. It reports the
// isolation of its calls. Each call of a command-line program starts a separate sandbox,
// which enforces the policy's rules about effects.
type sandboxedSource struct {
	predictingSource // in the working folder of the program
	starter          *sandboxStarter
}

var (
	_ source.Sandboxed = (*sandboxedSource)(nil)
	_ source.Predictor = (*sandboxedSource)(nil)
)

// Isolation implements [source.Sandboxed].
func (s *sandboxedSource) Isolation(ctx context.Context, req *source.Request) string {
	e, err := s.starter.engine()
	if err != nil || req.Engine != "" && req.Engine != e.Name() {
		return ""
	}
	p := e.Probe(ctx)
	if p.State != sandbox.Available {
		return ""
	}
	return p.Isolation
}

// Resumes returns false: an interrupted call cannot be resumed.
func (s *sandboxedSource) Resumes(context.Context, string) bool { return false }

// Enforces reports whether the sandbox enforces a rule. Programs can be hidden only in the
// sandbox of this machine, because another one has its own programs.
func (s *sandboxedSource) Enforces(_ *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	e, err := s.starter.engine()
	if err != nil || !restrict.Enforceable(rule, predicted) {
		return false
	}
	return e.Probe(context.Background()).State == sandbox.Available && (rule.Kind != toolroom.EffectCommand || e.Name() == config.RuntimeProcess)
}

// Call runs a tool if the sandbox meets the requirements of policy.
func (s *sandboxedSource) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	if err := s.checkPermitted(ctx, req); err != nil {
		return &source.Output{Unsent: true}, err
	}
	return s.Source.Call(ctx, req)
}

// checkPermitted returns an error if the sandbox does not meet the requirements of policy
// for the call.
func (s *sandboxedSource) checkPermitted(ctx context.Context, req *source.Request) error {
	if req.Engine == "" && req.Isolation == "" {
		return nil
	}
	name, have := cmp.Or(s.starter.source.Sandbox.Runtime, config.RuntimeProcess), s.Isolation(ctx, &source.Request{})
	err := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires isolation %s or stronger, but the program of the source %s runs in %s", req.Isolation, s.starter.name, cmp.Or(have, "no sandbox"))
	switch {
	case req.Engine != "" && req.Engine != name:
		err = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires engine %s, but the program of the source %s runs in %s", req.Engine, s.starter.name, name)
	case policy.AtLeast(policy.IsolationOf(have), toolroom.Isolation(req.Isolation)):
		return nil
	}
	return err.WithCLIHint("see which rule requires it: toolroom policy explain %s", req.Tool)
}
