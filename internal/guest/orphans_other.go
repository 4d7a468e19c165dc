//go:build unix && !linux

package guest

// adopt does nothing: a guest is the first process of a namespace on Linux only.
func (c *children) adopt() {}

func (c *children) reap() {}
