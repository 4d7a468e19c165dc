package catalog

import "github.com/toolroom/toolroom"

// ShownName returns the name of a tool in a list for models: its bare name if the tool
// requests that (or all is set) and the name is unambiguous, else the name with the
// namespace. Both resolve to the tool.
func (c *Catalog) ShownName(e *Entry, all bool) string {
	bare := e.Tool.ID.Name
	if !all && !e.Tool.Plain || !toolroom.IsModelName(bare) {
		return e.ModelName
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if len(c.byName[bare]) > 1 { // it is ambiguous; skip the lookup, because there may be hundreds
		return e.ModelName
	}
	if meant, err := c.meanings(bare); err != nil || len(meant) != 1 || meant[0] != e.Tool.ID.Unversioned() {
		return e.ModelName
	}
	return bare
}
