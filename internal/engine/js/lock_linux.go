package js

import "github.com/toolroom/toolroom/internal/lockdown"

// lock takes from this process what running JavaScript does not need.
func lock() error { return lockdown.LockSelf(lockdown.Lock{}) }
