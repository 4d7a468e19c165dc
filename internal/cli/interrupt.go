package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interrupts handles Ctrl-C while a person types programs: it ends the running program or
// the typed line, but not the process.
type interrupts struct {
	signals chan os.Signal
}

// takeInterrupts starts handling signals. The returned function stops it.
func takeInterrupts() (*interrupts, func()) {
	i := &interrupts{signals: make(chan os.Signal, 1)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	return i, func() { signal.Stop(i.signals) }
}

// during runs a program that the next signal ends. ended reports that the signal was not
// Ctrl-C, and that the process must end.
func (i *interrupts) during(ctx context.Context, run func(context.Context) error) (ended bool, err error) {
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

// typed reads typed input in raw mode. Ctrl-C ends the line and empties it; the editor
// would treat it as the end of the input.
type typed struct {
	in          io.Reader
	rest        []byte
	interrupted bool
}

const (
	ctrlC = 3
	// Go to the end of the line, delete it and press Enter.
	emptyLine = "\x05\x15\r"
)

func (t *typed) Read(p []byte) (int, error) {
	if len(t.rest) == 0 {
		raw := make([]byte, max(len(p)/len(emptyLine), 1))
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
			t.rest = append(t.rest, emptyLine...)
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}

// wasInterrupted reports a Ctrl-C once.
func (t *typed) wasInterrupted() bool {
	was := t.interrupted
	t.interrupted = false
	return was
}
