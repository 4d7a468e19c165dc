package app

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/source/secretref"
	"github.com/toolroom/toolroom/source"
)

// predictingSource is a source that predicts effects as the wrapped source does, if that
// can.
type predictingSource struct {
	source.Source
	// dir is the folder of relative paths in arguments if the wrapped source predicts
	// nothing.
	dir string
}

// Unwrap returns the wrapped source.
func (p predictingSource) Unwrap() source.Source { return p.Source }

// PredictEffects implements [source.Predictor].
func (p predictingSource) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	if of, ok := source.As[source.Predictor](p.Source); ok {
		return of.PredictEffects(req)
	}
	return nil, p.dir
}

// Enforces implements [source.Predictor].
func (p predictingSource) Enforces(req *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	of, ok := source.As[source.Predictor](p.Source)
	return ok && of.Enforces(req, rule, predicted)
}

// Preview implements [source.Predictor].
func (p predictingSource) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if of, ok := source.As[source.Predictor](p.Source); ok {
		return of.Preview(ctx, req)
	}
	return source.Preview{}, nil
}

// selectedSource is a source with only the tools that the config selects, and with the
// config's settings of them.
type selectedSource struct {
	predictingSource
	include, exclude []string
	timeout          time.Duration
	plain            bool
	task             toolroom.TaskSupport
	output           toolroom.OutputCheck
	effects          config.Effects
}

var (
	_ source.Predictor = (*selectedSource)(nil)
	_ source.Refiner   = (*selectedSource)(nil)
)

// selects reports whether the config selects the tool with a name.
func (s *selectedSource) selects(name string) bool {
	return (len(s.include) == 0 || policy.MatchesGlob(s.include, name)) && !policy.MatchesGlob(s.exclude, name)
}

// Tools lists the selected tools.
func (s *selectedSource) Tools(ctx context.Context) ([]toolroom.Tool, error) {
	tools, err := s.Source.Tools(ctx)
	if err != nil {
		return nil, err
	}
	tools = slices.DeleteFunc(tools, func(t toolroom.Tool) bool { return !s.selects(t.ID.Name) })
	addDeclaredEffects(tools, s.effects)
	for i := range tools {
		if s.timeout > 0 && tools[i].Timeout == 0 {
			tools[i].Timeout = s.timeout
		}
		tools[i].Plain = tools[i].Plain || s.plain
		tools[i].Task = cmp.Or(s.task, tools[i].Task)
		tools[i].OutputCheck = cmp.Or(s.output, tools[i].OutputCheck)
	}
	return tools, nil
}

// addDeclaredEffects adds the effects that the config declares to tools. The config has
// been validated, so every effect can be parsed.
func addDeclaredEffects(tools []toolroom.Tool, by config.Effects) {
	for i := range tools {
		for _, pattern := range slices.Sorted(maps.Keys(by)) {
			if !policy.MatchesGlob([]string{pattern}, tools[i].ID.Name) {
				continue
			}
			for _, text := range by[pattern] {
				if e, err := toolroom.ParseEffect(text); err == nil {
					tools[i].Effects = append(tools[i].Effects, e)
				}
			}
		}
	}
}

// Call calls the source with a context in which secret references have the caller's values.
func (s *selectedSource) Call(ctx context.Context, req *source.Request) (*source.Output, error) {
	return s.Source.Call(secretref.WithCaller(ctx, req.Identity.Key()), req)
}

// Subcommand forwards to the source, if it is a command-line program and the config selects
// the tool.
func (s *selectedSource) Subcommand(name string, arguments json.RawMessage) (string, json.RawMessage, bool) {
	c, ok := source.As[source.Refiner](s.Source)
	if !ok || !s.selects(name) {
		return "", nil, false
	}
	return c.Subcommand(name, arguments)
}

// Refine forwards to the source.
func (s *selectedSource) Refine(ctx context.Context, id toolroom.ID) (toolroom.Tool, error) {
	if r, ok := source.As[source.Refiner](s.Source); ok {
		return r.Refine(ctx, id)
	}
	return toolroom.Tool{}, source.ErrNotRefined
}
