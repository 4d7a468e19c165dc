package worker

import "github.com/toolroom/toolroom/internal/lockdown"

// lock drops the privileges that this process does not need to run programs.
func lock(compiles bool) error { return lockdown.LockSelf(lockdown.Lock{Code: compiles}) }
