// Package cputime bounds the processor time of a run in a process that runs one
// program at a time.
package cputime

import "time"

// Meter is the limit of one run, which one goroutine looks after. Its zero value
// has none.
type Meter struct {
	until time.Duration // of the process; 0 is no limit
	over  bool
}

// Start begins to count, from now on and for all threads of this process. A limit
// of zero is none, as is any where Supported is false.
func Start(limit time.Duration) Meter {
	if limit <= 0 || !Supported {
		return Meter{}
	}
	return Meter{until: used() + limit}
}

// Look reads the clock, which takes a system call where there is a limit, and tells
// what [Meter.Over] tells from then on.
func (m *Meter) Look() bool {
	m.over = m.over || m.until > 0 && used() > m.until
	return m.over
}

// Over tells whether the time was used up at the last look.
func (m *Meter) Over() bool { return m.over }
