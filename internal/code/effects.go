package code

import (
	"context"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/source"
)

// workDir stands for a program's working folder, which is created when it starts.
const workDir = "/sandbox"

var (
	_ source.Describer = (*Service)(nil)
	_ source.Predictor = (*Service)(nil)
	_ source.Sandboxed = (*Service)(nil)
)

// PredictEffects predicts what a shell program or a command line runs. For other languages nothing
// is known; without a sandbox that means any command, file and host.
func (s *Service) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	r, err := parse(req.Arguments)
	if err != nil {
		return []toolroom.Effect{{Kind: toolroom.EffectCommand}}, ""
	}
	var list []toolroom.Effect
	switch r.Language {
	case "shell":
		list = effects.ReadShell(r.Code, workDir)
	case "command":
		list = effects.ReadStarted(r.Command, r.Stdin, workDir)
	default:
		list = []toolroom.Effect{{Kind: toolroom.EffectNone}}
	}
	list = append(list, r.networkEffects()...)
	if r.usesHostRuntime() {
		list = append(list, toolroom.Effect{Kind: toolroom.EffectFile}, toolroom.Effect{Kind: toolroom.EffectHost})
		if r.Language != "shell" && r.Language != "command" {
			list = append(list, toolroom.Effect{Kind: toolroom.EffectCommand})
		}
	}
	return list, workDir
}

// Enforces returns false: rules about effects are kept by the choice of a sandbox.
func (s *Service) Enforces(*source.Request, toolroom.Effect, []toolroom.Effect) bool { return false }

// Preview returns nothing: the arguments of a call are the program.
func (s *Service) Preview(context.Context, *source.Request) (source.Preview, error) {
	return source.Preview{}, nil
}
