package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interrupts handles Ctrl-C in the REPL: it ends the running program or the typed line, but not
// the process.
type interrupts struct {
	signals chan os.Signal
}

// handleInterrupts starts handling signals. The returned function stops it.
func handleInterrupts() (*interrupts, func()) {
	i := &interrupts{signals: make(chan os.Signal, 1)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	return i, func() { signal.Stop(i.signals) }
}

// run runs a program and cancels it at the next signal. ended reports that the signal was not
// Ctrl-C, so the process must end.
func (i *interrupts) run(ctx context.Context, run func(context.Context) error) (ended bool, err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	for {
		select {
		case err := <-done:
			return ended, err
		case s := <-i.signals:
			ended = ended || s != os.Interrupt
			cancel()
		}
	}
}

// errInterrupted means that Ctrl-C was typed instead of a line.
var errInterrupted = errors.New("interrupted")

// lineInput reads a terminal in raw mode for the line editor. It turns Ctrl-C into keys that
// empty the line and end it, because the editor would treat Ctrl-C as the end of the input.
type lineInput struct {
	in          io.Reader
	rest        []byte
	interrupted bool
}

const (
	ctrlC = 3
	// clearLine are the keys that go to the end of the line, delete it and press Enter.
	clearLine = "\x05\x15\r"
)

func (t *lineInput) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		raw := make([]byte, max(len(p)/len(clearLine), 1))
		n, err := t.in.Read(raw)
		if err != nil {
			return 0, err
		}
		for _, b := range raw[:n] {
			if b != ctrlC {
				t.rest = append(t.rest, b)
				continue
			}
			t.interrupted = true
			t.rest = append(t.rest, clearLine...)
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// wasInterrupted reports whether Ctrl-C was typed since the last call.
func (t *lineInput) wasInterrupted() bool {
	was := t.interrupted
	t.interrupted = false
	return was
}
