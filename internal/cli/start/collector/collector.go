// Package collector keeps the garbage collector from running while the packages of a program
// are initialised. Their garbage exceeds the 4 MB at which collection begins, and collecting it
// takes a tenth of the processor time of a start.
//
// It imports next to nothing, so that it is itself initialised before the packages that
// allocate much.
package collector

import "runtime/debug"

// configured is the percentage from GOGC, by default 100.
var configured = debug.SetGCPercent(400)

// Resume makes the collector run as GOGC configures it. A program calls it before work that
// allocates much or takes long.
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
