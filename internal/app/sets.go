package app

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/nearest"
)

// CheckSet returns an error if no tool set has this name. It accepts the empty name.
func (r *App) CheckSet(name string) error {
	sets := r.Config().Sets
	if _, ok := sets[name]; ok || name == "" {
		return nil
	}
	if near, ok := nearest.Of(name, slices.Collect(maps.Keys(sets))); ok {
		return toolroom.Errorf(toolroom.CodeNotFound, "there is no tool set %q (did you mean %s?)", name, near).WithHint("use %s", near)
	}
	e := toolroom.Errorf(toolroom.CodeNotFound, "there is no tool set %q", name)
	if len(sets) == 0 {
		return e.WithHint("the config has none: write it in the section sets")
	}
	return e.WithHint("the sets of the config are %s", strings.Join(slices.Sorted(maps.Keys(sets)), ", "))
}
