package py

import "github.com/toolroom/toolroom/internal/lockdown"

// lock takes from this process what running Python does not need.
func lock() error { return lockdown.LockSelf(lockdown.Lock{}) }
