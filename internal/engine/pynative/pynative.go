// Package pynative is the engine py-native: the CPython of this machine, at full
// speed and with the installed packages, in processes that are forked in advance.
// Each owner has a zygote, which runs in a sandbox of package lockdown with
// everything imported. Each program gets its own fork of the zygote, which isolates
// itself further.
package pynative

import (
	"time"
)

// Options configures the engine. All fields have defaults.
type Options struct {
	// Init is the command that becomes the init of a sandbox: the path of a
	// binary and arguments that lead it to lockdown.Main. By default it is this
	// binary with lockdown.InitArg.
	Init []string
	// Python is the interpreter, /usr/bin/python3 if empty. It must be in a folder of
	// the machine that sandboxes see (/usr, /bin, /lib).
	Python string
	// SparePerOwner is the number of processes that are kept ready for the next programs of an
	// owner, 2 if zero.
	SparePerOwner int
	// Runs is how many programs run at once, 32 if zero. Further programs wait.
	Runs int
	// Owners is how many zygotes there are at most, 16 if zero. The one idle longest
	// makes room.
	Owners int
	// Idle is how long a zygote lives without a program, 5 minutes if zero.
	Idle time.Duration
}

func (o Options) withDefaults() Options {
	if o.Python == "" {
		o.Python = "/usr/bin/python3"
	}
	if o.SparePerOwner <= 0 {
		o.SparePerOwner = 2
	}
	if o.Runs <= 0 {
		o.Runs = 32
	}
	if o.Owners <= 0 {
		o.Owners = 16
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
	return o
}

// Stats counts the engine's work and its processes.
type Stats struct {
	Zygotes int // alive
	Waiting int // processes forked in advance
	Hits    int // programs that found one waiting
	Misses  int // programs that had to wait for a fork
	Failed  int // zygotes and forks that could not be started
	// Memory is the peak memory of all zygotes with their processes, in bytes, if
	// cgroups measure it.
	Memory int64
}
