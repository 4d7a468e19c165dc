//go:build !linux || !(amd64 || arm64)

package lockdown

import "errors"

// Harden returns an error: there is no filter for this system.
func Harden(Filter, bool) error { return errors.New("sandbox: no seccomp filter for this system") }
