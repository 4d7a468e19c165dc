package proc

import "time"

// CPUMeter limits the processor time of a run in a process that runs one program at a
// time. Use it from one goroutine. The zero CPUMeter has no limit.
type CPUMeter struct {
	until    time.Duration // of the process; 0 is no limit
	exceeded bool
}

// MeterCPU begins to count the time of all threads of this process. A limit of zero is
// no limit; if [CanMeterCPU] is false, every limit is ignored.
func MeterCPU(limit time.Duration) CPUMeter {
	if limit <= 0 || !CanMeterCPU {
		return CPUMeter{}
	}
	return CPUMeter{until: usedCPU() + limit}
}

// Check reads the clock, which takes a system call if there is a limit, and returns
// the new value of [CPUMeter.Exceeded].
func (m *CPUMeter) Check() bool {
	m.exceeded = m.exceeded || m.until > 0 && usedCPU() > m.until
	return m.exceeded
}

// Exceeded reports whether the time was used up at the last Check.
func (m *CPUMeter) Exceeded() bool { return m.exceeded }
