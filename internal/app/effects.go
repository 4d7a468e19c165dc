package app

import (
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

// PredictEffects forwards to the source, if it can predict effects.
func (s *selected) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	if f, ok := source.As[source.EffectPredictor](s.Source); ok {
		return f.PredictEffects(req)
	}
	return nil, s.dir
}

// PredictEffects forwards to the source, if it can predict effects.
func (m *sourceManager) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	if f, ok := source.As[source.EffectPredictor](m.src); ok {
		return f.PredictEffects(req)
	}
	return nil, ""
}

// Enforces forwards to the source, if it can enforce rules.
func (s *selected) Enforces(req *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	e, ok := source.As[source.Enforcer](s.Source)
	return ok && e.Enforces(req, rule, predicted)
}

// Enforces forwards to the source, if it can enforce rules.
func (m *sourceManager) Enforces(req *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	e, ok := source.As[source.Enforcer](m.src)
	return ok && e.Enforces(req, rule, predicted)
}
