package backend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/secret"
)

// CommandOptions configure a [Command].
type CommandOptions struct {
	// Argv is the program and its arguments, in which {scope}, {name} and
	// {identity} are replaced. No shell interprets them. Own is the same for
	// callers' own values; if it is empty, callers have none.
	Argv, Own []secret.Template
	// Env is the program's whole environment.
	Env []string
	Dir string
	// Timeout limits how long the program may take. The default is 10 s.
	Timeout time.Duration
	// Owner marks the process; see [proc.Owner].
	Owner string
}

// stopGrace is how long a program may take to end after its timeout, before it is
// killed.
const stopGrace = 2 * time.Second

// Command reads secrets from the output of a program, such as a password manager.
type Command struct{ o CommandOptions }

// NewCommand returns a Command with these options. It runs nothing yet.
func NewCommand(o CommandOptions) *Command {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	return &Command{o}
}

// Get runs the program. Its stdout, without a final line end, is the value. An exit
// code other than 0 without output means that there is no value. Its stderr is
// discarded, because it could contain the value.
func (s *Command) Get(ctx context.Context, ref secret.Ref) (string, error) {
	argv := s.o.Argv
	if ref.Owner != "" {
		if argv = s.o.Own; len(argv) == 0 {
			return "", secret.SharedOnlyError(ref, "program", "own_argv")
		}
	}
	words := make([]string, len(argv))
	for i, template := range argv {
		var err error
		if words[i], err = template.Word(ref); err != nil {
			return "", err
		}
	}
	out, err := s.run(ctx, words)
	switch exit := (interface{ ExitCode() int })(nil); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() > 0 && len(out) == 0: // a signal says nothing of the value
		return "", secret.NotSetError(ref, words[0]+" exited with a code other than 0 and printed nothing")
	case err != nil:
		return "", toolroom.Errorf(toolroom.CodeUpstreamError, "%s: %s failed: %w", ref, words[0], err).
			WithHint("run it by hand: %s", strings.Join(words, " "))
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r"), nil
}

var errSlow = errors.New("it took too long")

func (s *Command) run(ctx context.Context, words []string) ([]byte, error) {
	p, err := proc.Start(proc.Spec{Command: words[0], Args: words[1:], Env: s.o.Env, Dir: s.o.Dir, Owner: s.o.Owner, Stderr: io.Discard})
	if err != nil {
		return nil, err
	}
	defer p.Stop(stopGrace)
	p.Stdin.Close()
	type read struct {
		out []byte
		err error
	}
	done := make(chan read, 1)
	go func() {
		var out bytes.Buffer
		_, err := io.Copy(&out, io.LimitReader(p.Stdout, secret.MaxValue+2))
		done <- read{out.Bytes(), err}
	}()
	timer := time.NewTimer(s.o.Timeout)
	defer timer.Stop()
	var r read
	select {
	case r = <-done:
	case <-timer.C:
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.err != nil || len(r.out) > secret.MaxValue+1 {
		return nil, errors.Join(r.err, errors.New("it printed too much"))
	}
	select {
	case <-p.Done():
		return r.out, p.Err()
	case <-timer.C:
		return nil, errSlow
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
