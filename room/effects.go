package room

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/config"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/source"
)

// placeOf is the folder, as an absolute path, that a program is started in.
func (r *Room) placeOf(cwd string) string {
	dir, err := filepath.Abs(r.folder(cwd))
	if err != nil {
		return ""
	}
	return dir
}

func (r *Room) userHome() string {
	home, _ := r.lookupEnv("HOME")
	return home
}

// declared gives the tools that the config declares effects of what it says of
// them. The config has been checked: every text can be read.
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

// Foresee passes on to a source that can tell what a call would do.
func (s *selected) Foresee(req *source.Request) ([]toolroom.Effect, string) {
	if f, ok := source.As[source.Foreseer](s.Source); ok {
		return f.Foresee(req)
	}
	return nil, s.dir
}

// Foresee asks a source that can tell what a call would do.
func (h *host) Foresee(req *source.Request) ([]toolroom.Effect, string) {
	if f, ok := source.As[source.Foreseer](h.src); ok {
		return f.Foresee(req)
	}
	return nil, ""
}
