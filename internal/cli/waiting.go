package cli

import (
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
)

// waitShown is how long something takes before a person is told what it is.
const waitShown = time.Second

// during tells people what is being done if it takes longer than a second: on a terminal with
// the time that it has taken, until done is called; else once, in a line of its own.
func (s *screen) during(what string) (done func()) {
	if s.quiet {
		return func() {}
	}
	s.doing.Add(1)
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
		s.doing.Add(-1)
	})
}

// breakSilence tells people that a command is at work if it has said nothing for a second,
// and nothing else says what it does. Commands that wait for something to happen are silent.
func (a *cli) breakSilence(c *cobra.Command) (stop func()) {
	waits := c.Name() == "serve" || strings.HasPrefix(c.Name(), cobra.ShellCompRequestCmd)
	for _, name := range []string{"watch", "follow"} {
		f := c.Flags().Lookup(name)
		waits = waits || f != nil && f.Changed
	}
	if waits || a.screen.quiet || a.shared != nil {
		return func() {}
	}
	told, _ := a.Err.(*pipe)
	line := c.CommandPath() + " is at work …"
	timer := time.AfterFunc(waitShown, func() {
		switch {
		case a.screen.doing.Load() > 0 || a.out.written.Load() || told != nil && told.written.Load():
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
