package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// terminal80 is a terminal of 80 columns.
type terminal80 struct{ bytes.Buffer }

func (*terminal80) terminalWidth() int { return 80 }

func TestWaitsOfMoreThanASecondSayWhatIsDone(t *testing.T) {
	for _, c := range []struct {
		name     string
		takes    time.Duration
		quiet    bool
		terminal bool
		want     string
	}{
		{"soon over", 900 * time.Millisecond, false, false, ""},
		{"into a pipe", 5 * time.Second, false, false, "opening the box …\n"},
		{"on a terminal", 2500 * time.Millisecond, false, true, "opening the box … 2s"},
		{"quiet", 5 * time.Second, true, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := &terminal80{}
				s := newScreen(strings.NewReader(""), &bytes.Buffer{}, &err.Buffer)
				if c.terminal {
					s = newScreen(strings.NewReader(""), &bytes.Buffer{}, err)
				}
				s.quiet = c.quiet
				done := s.showActivity("opening the box")
				time.Sleep(c.takes)
				synctest.Wait()
				got := err.String()
				done()
				done()
				if c.terminal && (!strings.Contains(got, c.want) || s.status != "") {
					t.Errorf("it shows %q, and then %q; want %q", got, s.status, c.want)
				}
				if !c.terminal && err.String() != c.want {
					t.Errorf("it says %q, want %q", err.String(), c.want)
				}
			})
		})
	}
}
