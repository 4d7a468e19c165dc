//go:build !linux

package js

// lock does nothing: the isolation is that of WebAssembly and of a process.
func lock() error { return nil }
