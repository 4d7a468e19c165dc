package cli

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/source"
)

// PredictEffects returns the effects of the program with its arguments. It knows flags
// only from help that has been read already, because policy has not yet permitted
// the program to run.
func (s *Source) PredictEffects(req *source.Request) ([]toolroom.Effect, string) {
	dir, err := filepath.Abs(cmp.Or(s.o.RunDir, s.o.Dir))
	if err != nil {
		return []toolroom.Effect{{Kind: toolroom.EffectCommand}}, ""
	}
	name := s.subcommandOf(req.Tool.Name)
	s.mu.Lock()
	h := s.help[name]
	s.mu.Unlock()
	known := h != nil
	if !known {
		h = &help{}
	}
	a, err := h.parseArguments(req.Arguments)
	if err != nil {
		return []toolroom.Effect{{Kind: toolroom.EffectCommand}}, dir
	}
	effects := s.startEffects(s.argv(name, h, a), a.stdin, dir)
	if !known && name == "" && a.mayStartWithCommand() { // the program may have sub-commands
		effects = append(effects, s.startEffects(slices.Concat(s.o.Args, a.wordsAfterCommand()), a.stdin, dir)...)
	}
	return effects, dir
}

// startEffects returns the effects of starting the program with argv.
func (s *Source) startEffects(argv []string, stdin, dir string) []toolroom.Effect {
	return effects.ReadStarted(slices.Concat([]string{s.o.Command}, argv), stdin, dir)
}

// Enforces implements [source.Predictor].
func (s *Source) Enforces(_ *source.Request, rule toolroom.Effect, predicted []toolroom.Effect) bool {
	return s.o.Enforces != nil && restrict.Enforceable(rule, predicted) && s.o.Enforces()
}

// Preview returns nothing: the arguments of a call are the command line.
func (s *Source) Preview(context.Context, *source.Request) (source.Preview, error) {
	return source.Preview{}, nil
}
