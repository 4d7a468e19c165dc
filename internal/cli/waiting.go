package cli

import (
	"sync"
	"time"
)

// waitShown is how long something takes before a person is told what it is.
const waitShown = time.Second

// during tells people what is being done if it takes longer than a second: on a terminal with
// the time that it has taken, until done is called; else once, in a line of its own.
func (s *screen) during(what string) (done func()) {
	if s.quiet {
		return func() {}
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		timer := time.NewTimer(waitShown)
		defer timer.Stop()
		for shown := false; ; shown = true {
			select {
			case <-stop:
				if shown {
					s.progress("")
				}
				return
			case <-timer.C:
			}
			if !s.errTerminal {
				s.say("%s …", what)
				<-stop
				return
			}
			s.progress(what + " … " + took(time.Since(began).Truncate(time.Second)))
			timer.Reset(time.Second)
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
	})
}
