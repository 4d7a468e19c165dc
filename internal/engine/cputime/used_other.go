//go:build !linux

package cputime

import "time"

// Supported reports whether there is a clock.
const Supported = false

func used() time.Duration { return 0 }
