//go:build unix && !linux

package guest

// adopt does nothing: a guest is the first process on Linux alone.
func (c *children) adopt() {}

func (c *children) reap() {}
