//go:build !linux

package proc

// ReleasePages does nothing here: only Linux tells which pages can be mapped again.
func ReleasePages() {}
