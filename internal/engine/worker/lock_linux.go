package worker

import "github.com/toolroom/toolroom/internal/lockdown"

// lock removes the privileges that this process does not need to run a program.
func lock(compiles bool) error { return lockdown.LockSelf(lockdown.Lock{Code: compiles}) }
