package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// CanMeterCPU reports whether this system has a clock of the processor time of a process.
const CanMeterCPU = true

// usedCPU returns the processor time of all threads of this process; see clock_gettime(2).
// A process may always read its own clock.
func usedCPU() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}
