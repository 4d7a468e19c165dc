package cli

import (
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// activityDelay is how long work takes before a person is told about it.
const activityDelay = time.Second

// showActivity tells people what is being done if it takes longer than activityDelay, until done
// is called. On a terminal it shows the time that has passed; else it prints one line.
func (s *screen) showActivity(what string) (done func()) {
	if s.quiet {
		return func() {}
	}
	s.activities.Add(1)
	stop, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		timer := time.NewTimer(activityDelay)
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
			s.progress(what + " … " + formatDuration(time.Since(began).Truncate(time.Second)))
			timer.Reset(time.Second)
		}
	}()
	return sync.OnceFunc(func() {
		close(stop)
		<-ended
		s.activities.Add(-1)
	})
}

// showSilentActivity tells people that a command is at work if it has printed nothing for
// activityDelay and showActivity shows nothing. It does nothing for commands that wait for
// events.
func (a *cli) showSilentActivity(c *cobra.Command) (stop func()) {
	waits := c.Name() == "serve" || strings.HasPrefix(c.Name(), cobra.ShellCompRequestCmd)
	for _, name := range []string{"watch", "follow"} {
		f := c.Flags().Lookup(name)
		waits = waits || f != nil && f.Changed
	}
	if waits || a.screen.quiet || a.shared != nil {
		return func() {}
	}
	stderr, _ := a.Err.(*pipe)
	line := c.CommandPath() + " is at work …"
	timer := time.AfterFunc(activityDelay, func() {
		switch {
		case a.screen.activities.Load() > 0 || a.out.written.Load() || stderr != nil && stderr.written.Load():
		case a.screen.errTerminal:
			a.screen.progress(line)
		default:
			a.screen.say("%s", line)
		}
	})
	return func() {
		if !timer.Stop() {
			a.screen.progress("")
		}
	}
}
