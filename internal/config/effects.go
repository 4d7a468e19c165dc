package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolroom/toolroom/internal/effects"
)

// Effects declares the effects of calls, by tool name (* matches any characters):
// "file.write:{path}", "host.post:api.example.com", "command:{command}", "sql:{query}",
// "spend:{amount}", "send", "destroy", "none". {name} stands for an argument.
type Effects map[string][]string

func (c checker) checkEffects(key string, declared Effects) {
	for _, pattern := range slices.Sorted(maps.Keys(declared)) {
		at := key + "." + pattern
		c.checkGlobs(at, []string{pattern})
		for i, text := range declared[pattern] {
			if err := effects.CheckDeclared(text); err != nil {
				c.addProblem(fmt.Sprintf("%s[%d]", at, i), err.Error(), "for example file.write:{path}")
			}
		}
	}
}
