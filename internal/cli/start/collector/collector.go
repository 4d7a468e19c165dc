// Package collector keeps the garbage collector from running while the packages of a program
// are initialised. Their garbage is more than the 4 MB at which it begins, and to collect
// it takes a tenth of the processor time of a start.
//
// It imports next to nothing, so that it is itself initialised before the packages that
// allocate much.
package collector

import "runtime/debug"

// configured is the percentage that GOGC says, by default 100.
var configured = debug.SetGCPercent(400)

// Resume makes the collector run as GOGC says. A program calls it before it does work that
// allocates much or lasts.
func Resume() { debug.SetGCPercent(configured) }

// Seldom lets the memory in use grow threefold between two collections, unless GOGC says
// otherwise. It is for servers that have started: a start would leave three times the
// memory behind. A server has little memory in use, and would spend a sixth of its
// processor time on collecting under load.
func Seldom() {
	const byDefault = 100
	if configured == byDefault {
		debug.SetGCPercent(200)
	}
}
