package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/jsonx"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/source"
)

const (
	// maxOutput is the number of bytes kept of stdout and of stderr, as JSON. Further
	// output is read and counted, so that the program does not block.
	maxOutput = 10 << 20
	// stopGrace is the time between asking a program to end and killing it.
	stopGrace = 2 * time.Second
	// drainTime is how long output is still read after the end of the program, if a process
	// that it has left behind holds the pipe.
	drainTime = time.Second
	// helpTimeout limits the time that a program takes for --help; maxHelp limits its
	// output.
	helpTimeout = 5 * time.Second
	maxHelp     = 1 << 20
)

// Result is the value of every tool of a program.
type Result struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	OK       bool   `json:"ok"`
	// DroppedBytes counts the bytes beyond the 10 MiB that are kept of each stream.
	DroppedBytes int64 `json:"dropped_bytes,omitempty"`
}

const outputSchema = `{"type":"object","properties":{"stdout":{"type":"string"},"stderr":{"type":"string"},"exit_code":{"type":"integer"},"ok":{"type":"boolean"},"dropped_bytes":{"type":"integer"}},"required":["stdout","stderr","exit_code","ok"]}`

// Text returns the output without its final newline.
func (r Result) Text() string { return strings.TrimSuffix(r.Stdout, "\n") }

// Lines returns the lines of the output.
func (r Result) Lines() []string {
	if r.Text() == "" {
		return nil
	}
	return strings.Split(r.Text(), "\n")
}

// JSON decodes the output into v.
func (r Result) JSON(v any) error { return json.Unmarshal([]byte(r.Stdout), v) }

// quietEnv are variables that make programs print plain text and never wait for a person.
var quietEnv = []string{"TERM=dumb", "NO_COLOR=1", "PAGER=cat", "GIT_PAGER=cat", "MANPAGER=cat", "GIT_TERMINAL_PROMPT=0"}

func (s *Source) start(ctx context.Context, argv []string, rules []toolroom.Effect, stderr io.Writer) (*proc.Process, error) {
	if _, err := exec.LookPath(s.o.Command); err != nil && !s.o.Sandboxed {
		e := toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "program %s not found: %w", s.o.Command, err)
		e.Retryable = false
		e.Effects = toolroom.EffectsNone
		return nil, e.WithHint("install it, or set the source's command to its full path")
	}
	env, err := s.o.Env(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.o.Start(ctx, proc.Spec{Command: s.o.Command, Args: argv, Env: append(env, quietEnv...), Dir: s.o.Dir, Owner: s.o.Owner, Stderr: stderr}, rules)
	if toolroom.CodeOf(err) == toolroom.CodeSandboxUnavailable {
		return nil, err
	}
	if _, missing := os.Stat(s.o.Dir); s.o.Dir != "" && err != nil && missing != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be started in its working folder: %w", filepath.Base(s.o.Command), missing).
			WithHint("make the folder, or change cli.cwd of the source")
	}
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be started: %w", filepath.Base(s.o.Command), err)
	}
	return p, nil
}

// run runs the program to its end and sends its output as it arrives.
func (s *Source) run(ctx context.Context, argv []string, stdin string, req *source.Request) (*source.Output, error) {
	stderr := &capture{limit: maxOutput}
	p, err := s.start(ctx, argv, req.Forbidden, stderr)
	if err != nil {
		return &source.Output{Unsent: true}, err
	}
	go func() {
		_, _ = io.WriteString(p.Stdin, stdin) // fails if the program does not read its input
		p.Stdin.Close()
	}()
	stdout := &capture{limit: maxOutput}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		sendLines(io.TeeReader(p.Stdout, stdout), func(line string) {
			if piece, err := jsonx.Marshal(line); err == nil && stdout.dropped == 0 && ctx.Err() == nil {
				req.Emit(toolroom.Event{Kind: toolroom.EventChunk, Chunk: piece})
			}
		})
	}()
	ended := true
	select {
	case <-p.Done():
	case <-ctx.Done():
		ended = false
		p.Stop(stopGrace)
	}
	// A process that left the group may still hold the pipe.
	p.EndOutput(drainTime)
	<-drained
	p.Stop(0)
	if !ended {
		return nil, context.Cause(ctx)
	}
	return newOutput(p, stdout, stderr)
}

// maxLine is the longest line that is sent as one chunk. Longer lines are sent in
// pieces, so that output without line ends needs little memory.
const maxLine = 64 << 10

// sendLines reads r to its end and sends its lines.
func sendLines(r io.Reader, send func(string)) {
	lines := bufio.NewReaderSize(r, maxLine)
	rest := "" // the beginning of a character at the end of a piece
	for {
		piece, err := lines.ReadSlice('\n')
		text := rest + string(piece)
		rest = ""
		if errors.Is(err, bufio.ErrBufferFull) {
			end := wholeCharacters(text)
			text, rest = text[:end], text[end:]
		}
		if text != "" {
			send(text)
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// wholeCharacters returns the length of text without an incomplete character at its
// end.
func wholeCharacters(text string) int {
	for at := len(text) - 1; at >= max(0, len(text)-utf8.UTFMax); at-- {
		if utf8.RuneStart(text[at]) {
			if !utf8.FullRuneInString(text[at:]) {
				return at
			}
			break
		}
	}
	return len(text)
}

// newOutput returns the output of a call whose program has ended.
func newOutput(p *proc.Process, stdout, stderr *capture) (*source.Output, error) {
	r := Result{Stdout: stdout.text(), Stderr: stderr.text(), DroppedBytes: stdout.dropped + stderr.dropped}
	how := ""
	switch err := p.Err(); {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
	default:
		if r.ExitCode, how, _ = proc.ExitOf(err); how == "" {
			return nil, err
		}
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
		if how != "" {
			text = how + ": " + text
		}
	}
	out.Content = []toolroom.Content{toolroom.TextContent(text)}
	out.CPU, out.PeakMemory = p.Usage()
	return out, nil
}

// runHelp runs the program with --help and returns what it prints. It ignores the exit code,
// because many programs fail after they print their help.
func (s *Source) runHelp(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, helpTimeout)
	defer cancel()
	argv := append([]string(nil), s.o.Args...)
	if name != "" {
		argv = append(argv, strings.Split(name, ".")...)
	}
	question := s.sheet.Help
	switch {
	case name != "" && filepath.Base(s.o.Command) == "git":
		question = []string{"-h"} // git SUBCOMMAND --help opens the manual
	case len(question) == 0:
		question = []string{"--help"}
	}
	stderr := &capture{limit: maxHelp}
	p, err := s.start(ctx, append(argv, question...), nil, stderr)
	if err != nil {
		return "", err
	}
	p.Stdin.Close()
	stdout := &capture{limit: maxHelp}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(stdout, p.Stdout)
	}()
	select {
	case <-p.Done():
	case <-ctx.Done():
	}
	// A process that the program has left behind may hold the pipe.
	select {
	case <-drained:
	case <-time.After(drainTime):
	case <-ctx.Done():
	}
	timedOut := ctx.Err()
	p.Stop(stopGrace)
	<-drained
	if timedOut != nil {
		return "", toolroom.Errorf(toolroom.CodeTimeout, "%s did not answer %s within %s", filepath.Base(s.o.Command), strings.Join(question, " "), helpTimeout)
	}
	return stdout.text() + "\n" + stderr.text(), nil
}

// capture keeps the beginning of the written bytes and counts the rest. One goroutine
// writes it, and it is read after that goroutine has ended.
type capture struct {
	limit   int
	size    int // of kept, in bytes of JSON
	kept    bytes.Buffer
	dropped int64
}

func (c *capture) Write(p []byte) (int, error) {
	keep := 0
	for c.dropped == 0 && keep < len(p) && c.size+sizeInJSON(p[keep]) <= c.limit {
		c.size += sizeInJSON(p[keep])
		keep++
	}
	c.kept.Write(p[:keep])
	c.dropped += int64(len(p) - keep)
	return len(p), nil
}

// sizeInJSON returns the number of bytes that a byte of a text takes in JSON.
func sizeInJSON(b byte) int {
	switch {
	case b == '"' || b == '\\' || b == '\n' || b == '\r' || b == '\t':
		return 2
	case b < ' ':
		return 6
	}
	return 1
}

// text returns the kept bytes, with invalid UTF-8 replaced.
func (c *capture) text() string { return strings.ToValidUTF8(c.kept.String(), "\uFFFD") }
