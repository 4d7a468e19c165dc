// Package pynative is the engine py-native: the CPython of this machine, at
// its full speed and with the packages that are installed, in processes that
// are forked ahead of time. One zygote per owner lives in a sandbox of package
// lockdown with everything imported; each program gets a fork of it that serves
// nothing else, behind further walls of its own.
package pynative

import (
	"time"
)

// Options say how the engine runs. All have defaults.
type Options struct {
	// Init is the command that becomes the init of a sandbox: the path of a
	// binary and arguments that lead it to lockdown.Main. By default it is this
	// binary with lockdown.InitArg.
	Init []string
	// Python is the interpreter, /usr/bin/python3 if empty; it must lie where
	// sandboxes see the host's programs (/usr, /bin, /lib).
	Python string
	// Ahead is how many processes wait for the next programs of an owner, 2 if
	// zero.
	Ahead int
	// Runs is how many programs run at once, 32 if zero. Further ones wait.
	Runs int
	// Owners is how many zygotes there are at most, 16 if zero: the one unused
	// for longest makes room.
	Owners int
	// Idle is how long a zygote lives without a program, 5 minutes if zero.
	Idle time.Duration
}

func (o Options) withDefaults() Options {
	if o.Python == "" {
		o.Python = "/usr/bin/python3"
	}
	if o.Ahead <= 0 {
		o.Ahead = 2
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

// Stats count what the engine has done, and hold what it has.
type Stats struct {
	Zygotes int // alive
	Waiting int // processes forked ahead
	Hits    int // programs that found one
	Misses  int // programs that had to wait for a fork
	Failed  int // zygotes and forks that could not be started
	// Memory is the peak of all zygotes with their processes, in bytes, where
	// cgroups count it.
	Memory int64
}
