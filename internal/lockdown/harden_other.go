//go:build !linux || !(amd64 || arm64)

package lockdown

import "errors"

// Harden refuses: there is no such filter for this system.
func Harden() error { return errors.New("sandbox: no hardened filter for this system") }
