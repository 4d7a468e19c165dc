//go:build !linux

package proc

import "time"

// CanMeterCPU reports whether this system has a clock of the processor time of a process.
const CanMeterCPU = false

func usedCPU() time.Duration { return 0 }
