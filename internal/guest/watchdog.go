//go:build unix

package guest

import (
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// AliveTimeout is how long a guest with [AliveEnv] waits for a sign of its server. A machine
// under load delays both.
const AliveTimeout = 6 * bridge.AlivePeriod

// watch ends the guest if its server shows no sign of life. Nil does nothing.
type watch struct {
	timer   *time.Timer
	timeout time.Duration
}

func newWatch(timeout time.Duration, end func()) *watch {
	return &watch{time.AfterFunc(timeout, end), timeout}
}

// sign notes that the server has sent something.
func (w *watch) sign() {
	if w != nil {
		w.timer.Reset(w.timeout)
	}
}

// pause allows for more silence until the next sign: what is read next waits until the
// program has taken what came before. A program that never does must not live for ever.
func (w *watch) pause(most time.Duration) {
	if w != nil {
		w.timer.Reset(w.timeout + most)
	}
}

// read returns the server's next frame that is more than a sign of life.
func (r *run) read() (bridge.Frame, error) {
	for {
		f, _, err := r.server.Read()
		r.watch.sign()
		if err != nil || f.Kind != bridge.Alive {
			return f, err
		}
	}
}
