package worker

import "github.com/toolroom/toolroom/internal/lockdown"

// lock takes from this process what running a program does not need.
func lock(compiles bool) error { return lockdown.LockSelf(lockdown.Lock{Code: compiles}) }
