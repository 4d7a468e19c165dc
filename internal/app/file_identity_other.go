//go:build !linux

package app

import "errors"

// fileIdentity returns an error, because rules about files can be enforced on Linux only.
func fileIdentity(string) (string, error) { return "", errors.ErrUnsupported }
