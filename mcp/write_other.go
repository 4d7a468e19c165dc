//go:build !unix

package mcp

import "io"

// nonblockingWriter returns a function that writes nothing: on this system there is no way to
// write to a pipe without blocking.
func nonblockingWriter(io.Writer) func([]byte) (int, error) {
	return func([]byte) (int, error) { return 0, nil }
}
