package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// interrupts takes Ctrl-C away from the process while a person types programs:
// it ends the program that runs, or the line that is typed, and nothing else.
type interrupts struct {
	signals chan os.Signal
}

// takeInterrupts begins; call the function that it gives at the end.
func takeInterrupts() (*interrupts, func()) {
	i := &interrupts{signals: make(chan os.Signal, 1)}
	signal.Notify(i.signals, os.Interrupt, syscall.SIGTERM)
	return i, func() { signal.Stop(i.signals) }
}

// during runs a program that the next signal ends. ended says that it was no
// Ctrl-C: all is to end.
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

// errInterrupted says that Ctrl-C was typed in place of a line.
var errInterrupted = errors.New("interrupted")

// typed reads what is typed in raw mode. Ctrl-C ends the line and leaves it
// empty; the editor would take it for the end of the input.
type typed struct {
	in          io.Reader
	rest        []byte
	interrupted bool
}

const (
	ctrlC = 3
	// To the end of the line, forget it, and enter.
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

// wasInterrupted tells it once.
func (t *typed) wasInterrupted() bool {
	was := t.interrupted
	t.interrupted = false
	return was
}
