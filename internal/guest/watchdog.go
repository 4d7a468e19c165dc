//go:build unix

package guest

import (
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// AliveTimeout is how long a guest with [AliveEnv] waits for a sign of its server. A machine
// under load delays both.
const AliveTimeout = 6 * bridge.AlivePeriod

// watchdog ends the guest if its server is silent for too long. A nil watchdog does nothing.
type watchdog struct {
	timer   *time.Timer
	timeout time.Duration
}

func newWatchdog(timeout time.Duration, end func()) *watchdog {
	return &watchdog{time.AfterFunc(timeout, end), timeout}
}

// noteActivity records that the server has sent something.
func (w *watchdog) noteActivity() {
	if w != nil {
		w.timer.Reset(w.timeout)
	}
}

// extend allows a longer silence until the next activity, because the next frame is read only
// after the program has taken the last one. The silence is still limited, because a program may
// never take it.
func (w *watchdog) extend(most time.Duration) {
	if w != nil {
		w.timer.Reset(w.timeout + most)
	}
}

// read returns the server's next frame, skipping those that only say that the server is alive.
func (r *run) read() (bridge.Frame, error) {
	for {
		f, _, err := r.server.Read()
		r.watch.noteActivity()
		if err != nil || f.Kind != bridge.Alive {
			return f, err
		}
	}
}
