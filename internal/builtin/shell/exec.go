package shell

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/egress"
	"github.com/toolroom/toolroom/source"
)

// ExecArgs are the arguments of shell:exec.
type ExecArgs struct {
	Command string `json:"command" jsonschema:"the command line, for bash or sh"`
	Cwd     string `json:"cwd,omitempty" jsonschema:"working folder of the command"`
	Timeout int    `json:"timeout,omitempty" jsonschema:"time limit in milliseconds"`
	Stdin   string `json:"stdin,omitempty" jsonschema:"input of the command"`
	Session string `json:"session,omitempty" jsonschema:"name of a session that keeps the working folder and the exported variables from one command to the next; the session of the call if left out"`
	Terminal
}

// ExecResult is the value of shell:exec.
type ExecResult struct {
	ExitCode int    `json:"exit_code" jsonschema:"exit code; -1 if a signal ended the command"`
	Signal   string `json:"signal,omitempty" jsonschema:"the signal that ended the command"`
	Stdout   string `json:"stdout" jsonschema:"standard output"`
	Stderr   string `json:"stderr" jsonschema:"standard error output"`
	Dropped  int64  `json:"dropped_bytes,omitempty" jsonschema:"bytes of output that were not kept"`
	Cwd      string `json:"cwd" jsonschema:"the folder in which the command ran"`
	// Exceeded is the limit that ended the command.
	Exceeded  string `json:"exceeded,omitempty" jsonschema:"the limit that ended the command"`
	Isolation string `json:"isolation" jsonschema:"the isolation layers around the command, or none"`

	exit exitState
	// offline means that the command had no network.
	offline bool
}

// Finish implements [builtin.Finisher].
func (r ExecResult) Finish(out *source.Output) {
	out.Failed = r.ExitCode != 0
	out.CPU, out.PeakMemory = r.exit.cpu, r.exit.memory
}

const (
	defaultWall = 30 * time.Second
	maxWall     = 10 * time.Minute
	maxOutput   = 8 << 20 // bytes kept of one stream
)

func (s *Shell) exec() builtin.Tool {
	return builtin.MustTool(builtin.Spec[ExecArgs, ExecResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("shell:exec"), Title: "Run a command",
			Description: "Run or execute a shell or bash command in the terminal and get its output: run tests, build or compile a project with make, npm install, run a python script. It runs in a sandbox that can use the working folder; the network may be off. For servers and other long work use process:start.",
			Hints:       builtin.Hints(false, true, true), Guarantee: toolroom.GuaranteeNever, Tags: []string{"shell"},
			Timeout: maxWall, DefaultTimeout: maxWall,
			Examples: []toolroom.Example{
				{Arguments: builtin.Arguments(map[string]any{"command": "ls -l"}), ResultHint: "exit code and output"},
				{Arguments: builtin.Arguments(map[string]any{"command": "echo one two | wc -w"})},
			},
		},
		Arguments: terminalProperties(map[string]builtin.Property{
			"command": {"minLength": 1}, "timeout": {"minimum": 1, "maximum": maxWall.Milliseconds(), "default": defaultWall.Milliseconds()},
		}),
		Predict: func(req *source.Request, in ExecArgs) []toolroom.Effect {
			return predictEffects(in.Command, s.predictedDir(req, in.Cwd, in.Session))
		},
		Run: func(ctx context.Context, req *source.Request, in ExecArgs) (ExecResult, []toolroom.Content, error) {
			out, err := s.execute(ctx, req, in)
			return out, builtin.Text(out.text()), err
		},
	})
}

func sessionOf(req *source.Request, named string) string {
	if named != "" {
		return "named " + named
	}
	if req.Session == "" {
		return ""
	}
	return "call " + req.Session
}

// predictedDir returns the folder in which a command would run. It does not check the folder,
// because the command fails if it is wrong.
func (s *Shell) predictedDir(req *source.Request, cwd, named string) string {
	if s.o.Folders == nil {
		return ""
	}
	state, err := s.loadState(req, sessionOf(req, named))
	if err != nil {
		return ""
	}
	dir, err := s.workingFolder(cwd, state.Dir)
	if err != nil {
		return s.o.Folders.Dir()
	}
	return dir
}

func (s *Shell) execute(ctx context.Context, req *source.Request, in ExecArgs) (ExecResult, error) {
	session := sessionOf(req, in.Session)
	state, err := s.loadState(req, session)
	if err != nil {
		return ExecResult{}, err
	}
	out := ExecResult{}
	if out.Cwd, err = s.workingFolder(in.Cwd, state.Dir); err != nil {
		return out, err
	}
	c := command{argv: []string{shellPath(), "-c", in.Command}, runtime: s.runtimeOf(req), dir: out.Cwd, stdin: []byte(in.Stdin)}
	extra, err := s.prepare(ctx, req, &c, state)
	if err != nil {
		return out, err
	}
	if session != "" && s.o.State != "" {
		named := s.inDriver(c.runtime)
		if c.state, err = s.stateFile(named); err != nil {
			return out, err
		}
		defer c.state.Close()
		c.argv = []string{shellPath(), "-c", saveStateScript, "command", in.Command}
		if named {
			c.argv[2] = saveStateInDriver
			defer os.Remove(c.state.Name())
		}
	}
	if c.terminal, err = in.open(s.inDriver(c.runtime)); err != nil {
		return out, err
	}
	if c.terminal != nil {
		c.stdin = terminalInput(in.Stdin)
	}
	limit := wallTime(in.Timeout, defaultWall)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	timedOut, err := s.runToEnd(ctx, req, c, &out, timer.C)
	out.offline = c.runtime != RuntimeHost && s.o.Proxy == nil && !s.o.Network
	switch {
	case err != nil:
		return out, err
	case timedOut:
		return out, s.timeoutError(limit, out)
	case out.exit.err != nil:
		return out, toolroom.Errorf(toolroom.CodeExecutionFailed, "the sandbox of the command failed: %w", out.exit.err)
	case c.state != nil:
		return out, s.saveState(req, session, c, state, extra)
	}
	return out, nil
}

// runToEnd runs a command until it ends, over is ready, or ctx ends, which is an error. It sets
// the output and the exit status in out.
func (s *Shell) runToEnd(ctx context.Context, req *source.Request, c command, out *ExecResult, over <-chan time.Time) (timedOut bool, err error) {
	stdout, stderr := &clippedBuffer{}, &clippedBuffer{}
	run, err := s.startCommand(ctx, req, c, stdout, stderr)
	if err != nil {
		return false, err
	}
	select {
	case <-run.done:
	case <-over:
		timedOut = true
	case <-ctx.Done():
	}
	run.kill()
	<-run.done
	out.Stdout, out.Stderr, out.Isolation, out.exit = stdout.String(), stderr.String(), run.isolation, run.exit
	out.ExitCode, out.Signal, out.Exceeded = run.exit.code, run.exit.signal, run.exit.exceeded
	out.Dropped = stdout.dropped() + stderr.dropped()
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return timedOut, nil
}

func (s *Shell) timeoutError(limit time.Duration, out ExecResult) error {
	out.ExitCode, out.Signal = 0, "" // it was ended here
	printed := "; it had printed nothing"
	if text := strings.TrimSpace(out.text()); text != "" {
		printed = "; it had printed:\n" + tail(text) // what a model needs to see why
	}
	e := toolroom.Errorf(toolroom.CodeTimeout, "the command was stopped after %d ms%s", limit.Milliseconds(), printed)
	e.Details = map[string]any{"stdout": tail(out.Stdout), "stderr": tail(out.Stderr)}
	return e.WithHint("set a larger timeout, at most %d, or run it in the background: process:start", maxWall.Milliseconds())
}

func tail(text string) string {
	const most = 4000
	if len(text) <= most {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-most:], "")
}

// text returns the result as models read it.
func (r ExecResult) text() string {
	var b strings.Builder
	b.WriteString(r.Stdout)
	if r.Stderr != "" {
		if r.Stdout != "" && !strings.HasSuffix(r.Stdout, "\n") {
			b.WriteString("\n")
		}
		if r.Stdout != "" {
			b.WriteString("[stderr]\n")
		}
		b.WriteString(r.Stderr)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	var notes []string
	switch {
	case r.Exceeded != "":
		notes = append(notes, "ended by the limit of "+r.Exceeded)
	case r.Signal != "":
		notes = append(notes, "ended by signal: "+r.Signal)
	case r.ExitCode != 0:
		notes = append(notes, fmt.Sprintf("exit code %d", r.ExitCode))
	}
	if r.offline && r.ExitCode != 0 && egress.LacksNetwork(tail(r.Stderr)+tail(r.Stdout)) {
		notes = append(notes, "commands have no network here, unless toolroom.yaml says builtin: {shell: {network: guarded}}")
	}
	if r.Dropped > 0 {
		notes = append(notes, fmt.Sprintf("%d bytes of output were not kept", r.Dropped))
	}
	if len(notes) > 0 {
		text += "\n[" + strings.Join(notes, "; ") + "]"
	}
	return strings.TrimPrefix(text, "\n")
}

// clippedBuffer keeps the beginning and the end of what is written to it.
type clippedBuffer struct {
	mu         sync.Mutex
	head, tail []byte
	total      int64
}

func (c *clippedBuffer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	n := min(len(p), maxOutput/2-len(c.head))
	c.head = append(c.head, p[:n]...)
	c.tail = append(c.tail, p[n:]...)
	if len(c.tail) > maxOutput {
		c.tail = append([]byte(nil), c.tail[len(c.tail)-maxOutput/2:]...)
	}
	return len(p), nil
}

func (c *clippedBuffer) kept() []byte {
	if len(c.tail) > maxOutput/2 {
		c.tail = c.tail[len(c.tail)-maxOutput/2:]
	}
	return c.tail
}

func (c *clippedBuffer) dropped() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total - int64(len(c.head)) - int64(len(c.kept()))
}

// String returns the kept bytes as valid UTF-8.
func (c *clippedBuffer) String() string {
	dropped := c.dropped()
	c.mu.Lock()
	defer c.mu.Unlock()
	text := string(c.head)
	if dropped > 0 {
		text += fmt.Sprintf("\n[… %d bytes were not kept …]\n", dropped)
	}
	text += string(c.kept())
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text
}

// Program is a program that another pack runs.
type Program struct {
	Argv []string
	// Dir is its working folder, as for shell:exec.
	Dir   string
	Env   map[string]string
	Stdin string
	// Offline runs it without a network, and ReadOnly without write access to the folders, even
	// if the shell's options permit these. The runtime host cannot enforce either.
	Offline, ReadOnly bool
}

// Run runs a program as shell:exec would, without a session, until it ends or ctx is done.
func (s *Shell) Run(ctx context.Context, req *source.Request, p Program) (ExecResult, error) {
	dir, err := s.workingFolder(p.Dir, "")
	if err != nil {
		return ExecResult{}, err
	}
	out := ExecResult{Cwd: dir}
	c := command{argv: p.Argv, runtime: s.runtimeOf(req), dir: dir, stdin: []byte(p.Stdin), offline: p.Offline, readOnly: p.ReadOnly}
	c.env = s.mergeEnv(c, nil, p.Env)
	if _, err := s.runToEnd(ctx, req, c, &out, nil); err != nil {
		return out, err
	}
	return out, out.exit.err
}

// Dir returns the working folder of commands without a session.
func (s *Shell) Dir() string {
	if s.o.Folders == nil {
		return ""
	}
	return s.o.Folders.Dir()
}
