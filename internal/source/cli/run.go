package clisource

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
)

const (
	// maxOutput is how much of stdout, and of stderr, is kept. More is read and
	// counted, so that the program does not block.
	maxOutput = 10 << 20
	// stopGrace is the time between asking a program to end and ending it.
	stopGrace = 2 * time.Second
	// helpTimeout bounds a program that does not answer --help; maxHelp its
	// answer.
	helpTimeout = 5 * time.Second
	maxHelp     = 1 << 20
)

// Result is the value of every tool of a program.
type Result struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	OK       bool   `json:"ok"`
	// DroppedBytes counts what was written beyond the 10 MiB kept of each.
	DroppedBytes int64 `json:"dropped_bytes,omitempty"`
}

const outputSchema = `{"type":"object","properties":{"stdout":{"type":"string"},"stderr":{"type":"string"},"exit_code":{"type":"integer"},"ok":{"type":"boolean"},"dropped_bytes":{"type":"integer"}},"required":["stdout","stderr","exit_code","ok"]}`

// Text is the output without the newline at its end.
func (r Result) Text() string { return strings.TrimSuffix(r.Stdout, "\n") }

// Lines are the lines of the output.
func (r Result) Lines() []string {
	if r.Text() == "" {
		return nil
	}
	return strings.Split(r.Text(), "\n")
}

// JSON decodes the output into v.
func (r Result) JSON(v any) error { return json.Unmarshal([]byte(r.Stdout), v) }

// quiet makes programs print plainly and never wait for a person.
var quiet = []string{"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "GIT_TERMINAL_PROMPT=0"}

func (s *Source) start(ctx context.Context, argv []string, stderr io.Writer) (*proc.Process, error) {
	if _, err := exec.LookPath(s.o.Command); err != nil {
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the program %s cannot be found: %w", s.o.Command, err)
		e.Retryable = false
		e.Details = map[string]any{"effects": toolroom.EffectsNone}
		return nil, e.WithHint("install it, or give its whole path as the source's command")
	}
	env, err := s.o.Env(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.o.Start(proc.Spec{Command: s.o.Command, Args: argv, Env: append(env, quiet...), Dir: s.o.Dir, Owner: s.o.Owner, Stderr: stderr})
	if toolroom.CodeOf(err) == toolroom.CodeSandboxUnavailable {
		return nil, err
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be started: %w", filepath.Base(s.o.Command), err)
	}
	return p, nil
}

// run runs the program to its end and sends its output as it comes.
func (s *Source) run(ctx context.Context, argv []string, stdin string, req *source.Request) (*source.Output, error) {
	stderr := &capture{most: maxOutput}
	p, err := s.start(ctx, argv, stderr)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	go func() {
		_, _ = io.WriteString(p.Stdin, stdin) // a program need not read its input
		p.Stdin.Close()
	}()
	stdout := &capture{most: maxOutput}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewReader(io.TeeReader(p.Stdout, stdout))
		for {
			line, err := lines.ReadString('\n')
			if line != "" && stdout.dropped == 0 {
				if piece, err := jsonx.Marshal(line); err == nil {
					req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: piece})
				}
			}
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Stop(stopGrace)
	}
	// Something that left the group may still hold the pipe.
	select {
	case <-drained:
	case <-time.After(time.Second):
	}
	p.Stop(0)
	<-drained
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return output(p, stdout, stderr)
}

func output(p *proc.Process, stdout, stderr *capture) (*source.Output, error) {
	r := Result{Stdout: stdout.text(), Stderr: stderr.text(), DroppedBytes: stdout.dropped + stderr.dropped}
	var exit *exec.ExitError
	switch err := p.Err(); {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
	case errors.As(err, &exit):
		r.ExitCode = exit.ExitCode()
	default:
		return nil, err
	}
	r.OK = r.ExitCode == 0
	value, err := jsonx.Marshal(r)
	if err != nil {
		return nil, err
	}
	out := &source.Output{Value: value, Failed: !r.OK}
	text := r.Text()
	if !r.OK {
		text = strings.TrimSpace(r.Stderr + "\n" + r.Stdout)
		if exit != nil {
			text = exit.ProcessState.String() + ": " + text
		}
	}
	out.Content = []toolroom.Content{toolroom.TextContent(text)}
	out.CPU, out.PeakMemory = p.Usage()
	return out, nil
}

// ask runs the program for the help of a sub-command. The exit code says
// nothing: many programs fail while they print it.
func (s *Source) ask(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	argv := append([]string(nil), s.o.Args...)
	if name != "" {
		argv = append(argv, strings.Split(name, ".")...)
	}
	flag := "--help"
	if name != "" && filepath.Base(s.o.Command) == "git" {
		flag = "-h" // git SUBCOMMAND --help opens the manual
	}
	stderr := &capture{most: maxHelp}
	p, err := s.start(ctx, append(argv, flag), stderr)
	if err != nil {
		return "", err
	}
	p.Stdin.Close()
	stop := context.AfterFunc(ctx, func() { p.Stop(stopGrace) })
	defer stop()
	stdout := &capture{most: maxHelp}
	_, _ = io.Copy(stdout, p.Stdout)
	p.Stop(stopGrace)
	if err := ctx.Err(); err != nil {
		return "", toolroom.Errorf(toolroom.CodeTimeout, "%s did not answer %s within %s", filepath.Base(s.o.Command), flag, helpTimeout)
	}
	return stdout.text() + "\n" + stderr.text(), nil
}

// capture keeps the beginning of what is written and counts the rest. It is
// written by one goroutine and read after it has ended.
type capture struct {
	most    int
	kept    bytes.Buffer
	dropped int64
}

func (c *capture) Write(p []byte) (int, error) {
	room := max(c.most-c.kept.Len(), 0)
	keep := min(room, len(p))
	c.kept.Write(p[:keep])
	c.dropped += int64(len(p) - keep)
	return len(p), nil
}

// text is what was kept; bytes that are no UTF-8 are replaced.
func (c *capture) text() string { return strings.ToValidUTF8(c.kept.String(), "\uFFFD") }
