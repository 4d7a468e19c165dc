package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
)

// A server that does not stop ends with its process, even if nobody reads its stderr.
func TestAServerThatDoesNotStopIsEnded(t *testing.T) {
	t.Parallel()
	for _, blocked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			unread, reader := make(chan struct{}), &bytes.Buffer{}
			var errOut io.Writer = reader
			if blocked {
				errOut = blockedWriter{unread}
			}
			exited := make(chan int, 1)
			a, _ := newCLI(Program{Err: errOut, Out: io.Discard, In: strings.NewReader(""), Exit: func(code int) { exited <- code }}, func() {})
			ctx, cancel := context.WithCancel(t.Context())
			a.exitIfStuck(ctx, time.Minute)
			time.Sleep(time.Hour)
			if len(exited) > 0 {
				t.Error("a server that runs was ended")
			}
			cancel()
			began := time.Now()
			if code := <-exited; code != toolroom.ExitError || time.Since(began) > time.Minute+time.Second {
				t.Errorf("it ended with %d after %s", code, time.Since(began))
			}
			if want := "toolroom: the server did not stop within 1m0s and was ended\n"; !blocked && reader.String() != want {
				t.Errorf("it said %q", reader)
			}
			close(unread)
		})
	}
}

type blockedWriter struct{ until chan struct{} }

func (w blockedWriter) Write(p []byte) (int, error) {
	<-w.until
	return len(p), nil
}
