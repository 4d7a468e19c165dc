// Package collector keeps the garbage collector from running while the packages of a program
// are initialised, and during short commands. Their garbage exceeds the 4 MB at which
// collection begins. Collecting it takes a tenth of the processor time of a start, and a
// quarter of that of a command that opens a room.
//
// It imports next to nothing, so that it is itself initialised before the packages that
// allocate much.
package collector

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

// configured is the percentage from GOGC, by default 100.
var configured = debug.SetGCPercent(400)

// decided is set when the program has called Resume or Seldom.
var decided atomic.Bool

// Resume makes the collector run as GOGC configures it. A program calls it before work that
// allocates much or takes long.
func Resume() {
	decided.Store(true)
	debug.SetGCPercent(configured)
}

// ResumeAfterFirst is Resume after the collector has run once, at 16 MB, unless the program
// calls Resume or Seldom before. Most commands end with less memory.
func ResumeAfterFirst() {
	// The object is garbage at once, so the first collection runs its cleanup.
	runtime.AddCleanup(new(*int), func(struct{}) {
		if !decided.Load() {
			Resume()
		}
	}, struct{}{})
}

// Seldom lets the memory in use grow threefold between two collections, unless GOGC says
// otherwise. It is for servers that have started: a start would leave three times the
// memory behind. A server has little memory in use, and would spend a sixth of its
// processor time on collecting under load.
func Seldom() {
	decided.Store(true)
	const byDefault = 100
	if configured == byDefault {
		debug.SetGCPercent(200)
	}
}
