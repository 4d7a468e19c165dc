package clisource

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/effects/shell"
	"github.com/toolroom/toolroom/source"
)

// Foresee tells what the program would do with its arguments. Flags are read as
// far as the help has been read already: policy has not yet permitted to run
// the program.
func (s *Source) Foresee(req *source.Request) ([]toolroom.Effect, string) {
	dir, err := filepath.Abs(s.o.Dir)
	if err != nil {
		return []toolroom.Effect{{Kind: toolroom.EffectCommand}}, ""
	}
	name := s.path(req.Tool.Name)
	s.mu.Lock()
	h := s.help[name]
	s.mu.Unlock()
	if h == nil {
		h = &help{}
	}
	args, stdin, err := h.arguments(req.Arguments)
	if err != nil {
		return []toolroom.Effect{{Kind: toolroom.EffectCommand}}, dir
	}
	argv := append([]string{s.o.Command}, s.o.Args...)
	if name != "" {
		argv = append(argv, strings.Split(name, ".")...)
	}
	return shell.Started(slices.Concat(argv, args), stdin, dir), dir
}
