package proc

import "time"

// CPUMeter limits the processor time of a run in a process that runs one program at a
// time. Use it from one goroutine. The zero CPUMeter has no limit.
type CPUMeter struct {
	until time.Duration // of the process; 0 is no limit
	over  bool
}

// MeterCPU begins to count the time of all threads of this process. A limit of zero is
// no limit; if [MetersCPU] is false, every limit is ignored.
func MeterCPU(limit time.Duration) CPUMeter {
	if limit <= 0 || !MetersCPU {
		return CPUMeter{}
	}
	return CPUMeter{until: usedCPU() + limit}
}

// Look reads the clock, which takes a system call if there is a limit, and returns
// the new value of [CPUMeter.Over].
func (m *CPUMeter) Look() bool {
	m.over = m.over || m.until > 0 && usedCPU() > m.until
	return m.over
}

// Over reports whether the time was used up at the last Look.
func (m *CPUMeter) Over() bool { return m.over }
