//go:build !linux

package py

// lock does nothing: the isolation is that of WebAssembly and of a process.
func lock() error { return nil }
