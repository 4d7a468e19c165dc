//go:build !linux

package lookout

import "os"

func pause() {}

// Polled is a file; here nobody looks before it sleeps.
func Polled(file *os.File) (Source, error) { return waits{file}, nil }

// Held is a file; here nobody looks before it sleeps.
func Held(file *os.File) (Source, error) { return waits{file}, nil }

type waits struct{ *os.File }

// Try waits, for there is nothing that does not.
func (w waits) Try(b []byte) (int, error) { return w.Read(b) }
