//go:build !linux

package proc

import "time"

// MetersCPU reports whether this system has a clock of the processor time of a process.
const MetersCPU = false

func usedCPU() time.Duration { return 0 }
