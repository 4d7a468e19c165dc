package function

import (
	"maps"
	"slices"
	"strings"
)

// readPackages reads which npm packages a tool needs, from package.json and its header. The
// lock is no file of the tool: it is kept by itself.
func (c *Code) readPackages() error {
	if text, ok := c.Files[PackageFile]; ok {
		more, err := PackageRequirements(text)
		if err != nil {
			return err
		}
		c.Manifest.Dependencies = append(c.Manifest.Dependencies, more...)
	}
	slices.Sort(c.Manifest.Dependencies)
	c.Manifest.Dependencies = slices.Compact(c.Manifest.Dependencies)
	if text, ok := c.Files[LockFile]; ok && strings.TrimSpace(text) != "" {
		c.Lock = text
		c.Files = maps.Clone(c.Files)
		delete(c.Files, LockFile)
	}
	return nil
}
