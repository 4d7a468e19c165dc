// Package cputime limits the processor time of a run in a process that runs one
// program at a time.
package cputime

import "time"

// Meter enforces the limit of one run. Use it from one goroutine. The zero Meter has
// no limit.
type Meter struct {
	until time.Duration // of the process; 0 is no limit
	over  bool
}

// Start begins to count the time of all threads of this process. A limit of zero is
// no limit; if Supported is false, every limit is ignored.
func Start(limit time.Duration) Meter {
	if limit <= 0 || !Supported {
		return Meter{}
	}
	return Meter{until: used() + limit}
}

// Look reads the clock, which takes a system call if there is a limit, and returns
// the new value of [Meter.Over].
func (m *Meter) Look() bool {
	m.over = m.over || m.until > 0 && used() > m.until
	return m.over
}

// Over reports whether the time was used up at the last Look.
func (m *Meter) Over() bool { return m.over }
