package browser

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp/jsonv2"
)

// A browser that reads no commands is ended by a call that has ended, not waited for.
func TestACallOfABrowserThatDoesNotReadEnds(t *testing.T) {
	t.Parallel()
	answers, theirs := io.Pipe()
	commands, ours := io.Pipe() // nobody reads commands
	c := newConn(answers, ours, func(string, string, jsonv2.Value) {})
	go func() { // as the process of a browser ends with its connection
		<-c.done
		commands.Close()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan error, 2)
	go session{c, ""}.post("Page.enable", struct{}{}) // which has no end
	for range 2 {
		go func() { ended <- c.call(ctx, "", "Page.navigate", struct{}{}, nil) }()
	}
	for range 2 {
		select {
		case err := <-ended:
			if !errors.Is(err, errEnded) {
				t.Errorf("got %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("a call waits for a browser that does not read")
			c.r.Close()
		}
	}
	theirs.Close()
}
