package config

import (
	"maps"
	"slices"
	"strings"
)

// Files returns the files that the config names and whose content decides what may run and
// where it connects: rules, manifests of skills, and OpenAPI documents that are not URLs.
// Relative paths are relative to the config. The programs that sources run are not among
// them.
func (c *Config) Files() []string {
	files := c.PolicyFiles()
	for _, name := range slices.Sorted(maps.Keys(c.Sources)) {
		if o := c.Sources[name].OpenAPI; o != nil && !strings.HasPrefix(o.Spec, "http://") && !strings.HasPrefix(o.Spec, "https://") {
			files = append(files, o.Spec)
		}
	}
	return files
}

// PolicyFiles returns the files of rules and the manifests of skills.
func (c *Config) PolicyFiles() []string {
	var files []string
	for _, item := range c.Policy.Rules {
		if IsRuleFile(item) {
			files = append(files, item)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Tools.Skills)) {
		if manifest := c.Tools.Skills[name].Manifest; manifest != "" {
			files = append(files, manifest)
		}
	}
	return files
}
