package app

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// placeOf returns the working folder of a program as an absolute path.
func (a *App) placeOf(cwd string) string {
	dir, err := filepath.Abs(a.folder(cwd))
	if err != nil {
		return ""
	}
	return dir
}

func (a *App) userHome() string {
	home, _ := a.lookupEnv("HOME")
	return home
}

// declared adds the effects that the config declares to tools. The config has been
// validated, so every effect can be parsed.
func declared(tools []toolroom.Tool, by config.Effects) {
	for i := range tools {
		for _, pattern := range slices.Sorted(maps.Keys(by)) {
			if !policy.MatchAny([]string{pattern}, tools[i].ID.Name) {
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

var (
	_ source.Predictor = (*selected)(nil)
	_ source.Refiner   = (*selected)(nil)
)

// PredictEffects forwards to the source, if it can predict effects. The relative paths of
// any other source are in the folder that the config names.
func (s *selected) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	if p, ok := source.As[source.Predictor](s.Source); ok {
		return p.PredictEffects(req)
	}
	return nil, s.dir
}

// Enforces forwards to the source.
func (s *selected) Enforces(req *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	p, ok := source.As[source.Predictor](s.Source)
	return ok && p.Enforces(req, rule, predicted)
}

// Preview forwards to the source.
func (s *selected) Preview(ctx context.Context, req *source.Request) (source.Preview, error) {
	if p, ok := source.As[source.Predictor](s.Source); ok {
		return p.Preview(ctx, req)
	}
	return source.Preview{}, nil
}
