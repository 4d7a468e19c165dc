package shell

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/builtin"
	"github.com/toolroom/toolroom/internal/effects"
	"github.com/toolroom/toolroom/internal/identity"
	"github.com/toolroom/toolroom/source"
)

const (
	maxRunning  = 16      // processes of one identity that run at once
	maxFinished = 50      // ended processes of one identity that are remembered
	maxLog      = 4 << 20 // bytes of output kept of one process
)

// process is a process in the background.
type process struct {
	owner   toolroom.Identity
	command string
	cwd     string
	begun   time.Time
	run     *started
	log     ring

	mu    sync.Mutex
	ended time.Time
}

// processTable holds the background processes of all identities.
type processTable struct {
	mu     sync.Mutex
	all    []*process
	closed bool
}

// add adds a process, or returns an error if the limit is reached. It is called before the
// start, so that the limit also holds for concurrent calls.
func (t *processTable) add(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "Toolroom is shutting down")
	}
	running, finished := 0, 0
	for _, other := range slices.Backward(t.all) {
		if other.owner.Key() != p.owner.Key() {
			continue
		}
		if other.isRunning() {
			running++
		} else if finished++; finished > maxFinished {
			t.all = slices.DeleteFunc(t.all, func(x *process) bool { return x == other })
		}
	}
	if running >= maxRunning {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "%d processes are running, the maximum", running).WithHint("end one: process:kill; list them: process:list")
	}
	t.all = append(t.all, p)
	return nil
}

func (t *processTable) remove(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = slices.DeleteFunc(t.all, func(x *process) bool { return x == p })
}

// usableBy returns the processes that a caller may use. (Limits count the processes of the
// whole subject.)
func (t *processTable) usableBy(caller toolroom.Identity) []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var mine []*process
	for _, p := range t.all {
		if identity.Reaches(caller, p.owner) && p.pid() != 0 {
			mine = append(mine, p)
		}
	}
	return mine
}

func (t *processTable) find(req *source.Request, pid int) (*process, error) {
	mine := t.usableBy(req.Identity)
	// The newest one: the system uses ids again.
	for _, p := range slices.Backward(mine) {
		if p.pid() == pid {
			return p, nil
		}
	}
	return nil, toolroom.Errorf(toolroom.CodeNotFound, "no process %d was started by this caller", pid).WithHint("list the processes: process:list. A process, and what it printed, ends with Toolroom")
}

// close kills all processes.
func (s *Shell) close() error {
	s.table.mu.Lock()
	s.table.closed = true
	all := slices.Clone(s.table.all)
	s.table.mu.Unlock()
	var wg sync.WaitGroup
	for _, p := range all {
		if run := p.started(); run != nil {
			wg.Go(run.kill)
		}
	}
	wg.Wait()
	return nil
}

func (p *process) started() *started {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *process) pid() int {
	if run := p.started(); run != nil {
		return run.pid
	}
	return 0
}

func (p *process) isRunning() bool {
	run := p.started()
	if run == nil {
		return true // it is being started
	}
	select {
	case <-run.done:
		return false
	default:
		return true
	}
}

// Status is the status of a background process.
type Status struct {
	PID         int       `json:"pid" jsonschema:"process id"`
	Command     string    `json:"command" jsonschema:"the command"`
	Cwd         string    `json:"cwd" jsonschema:"working folder"`
	Running     bool      `json:"running" jsonschema:"whether it still runs"`
	Started     time.Time `json:"started" jsonschema:"when it was started"`
	Ended       time.Time `json:"ended,omitzero" jsonschema:"when it ended"`
	ExitCode    *int      `json:"exit_code,omitempty" jsonschema:"exit code of an ended process"`
	Signal      string    `json:"signal,omitempty" jsonschema:"the signal that ended it"`
	Exceeded    string    `json:"exceeded,omitempty" jsonschema:"the limit that ended it"`
	OutputBytes int64     `json:"output_bytes" jsonschema:"bytes of output so far"`
	Isolation   string    `json:"isolation" jsonschema:"the isolation layers around it, or none"`
}

func (p *process) status() Status {
	run := p.started()
	out := Status{PID: run.pid, Command: p.command, Cwd: p.cwd, Running: p.isRunning(), Started: p.begun, OutputBytes: p.log.size(), Isolation: run.isolation}
	if !out.Running {
		code := run.exit.code
		out.ExitCode, out.Signal, out.Exceeded = &code, run.exit.signal, run.exit.exceeded
		p.mu.Lock()
		out.Ended = p.ended
		p.mu.Unlock()
	}
	return out
}

func (s Status) text() string {
	state := "running"
	if !s.Running {
		state = fmt.Sprintf("ended with exit code %d", *s.ExitCode)
		if s.Signal != "" {
			state = "ended by signal: " + s.Signal
		}
	}
	return fmt.Sprintf("%d  %s  %s", s.PID, state, s.Command)
}

// StartArgs are the arguments of process:start.
type StartArgs struct {
	Command string   `json:"command" jsonschema:"the program; without args a whole command line for the shell"`
	Args    []string `json:"args,omitempty" jsonschema:"arguments of the program"`
	Cwd     string   `json:"cwd,omitempty" jsonschema:"working folder"`
	Input   string   `json:"input,omitempty" jsonschema:"input of the program; in a terminal it is typed, and process:write types more"`
	Terminal
}

func (in StartArgs) argv() []string {
	if len(in.Args) > 0 {
		return append([]string{in.Command}, in.Args...)
	}
	return []string{shellPath(), "-c", in.Command}
}

func (s *Shell) start() builtin.Tool {
	return builtin.MustTool(builtin.Spec[StartArgs, Status]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("process:start"), Title: "Start a background process",
			Description: "Start or launch a long-running program in the background, such as a dev server or a watcher. Returns its process id at once; see process:output and process:kill.",
			Hints:       builtin.Hints(false, true, true), Guarantee: toolroom.GuaranteeNever, Tags: []string{"process"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"command": "sleep", "args": []string{"60"}})}},
		},
		Arguments: terminalProperties(map[string]builtin.Property{"command": {"minLength": 1}, "input": {"maxLength": 1 << 20}}),
		Predict: func(req *source.Request, in StartArgs) []toolroom.Effect {
			dir := s.predictedDir(req, in.Cwd, "")
			if len(in.Args) > 0 {
				return effects.ReadArgs(in.argv(), dir)
			}
			return predictEffects(in.Command, dir)
		},
		Run: func(ctx context.Context, req *source.Request, in StartArgs) (Status, []toolroom.Content, error) {
			p, err := s.background(ctx, req, in)
			if err != nil {
				return Status{}, nil, err
			}
			out := p.status()
			return out, builtin.Text(fmt.Sprintf("Started process %d: %s", out.PID, out.Command)), nil
		},
	})
}

func (s *Shell) background(ctx context.Context, req *source.Request, in StartArgs) (*process, error) {
	state, err := s.loadState(req, sessionOf(req, ""))
	if err != nil {
		return nil, err
	}
	dir, err := s.workingFolder(in.Cwd, state.Dir)
	if err != nil {
		return nil, err
	}
	c := command{argv: in.argv(), runtime: s.runtimeOf(req), dir: dir, stdin: []byte(in.Input)}
	if _, err := s.prepare(ctx, req, &c, state); err != nil {
		return nil, err
	}
	p := &process{owner: req.Identity, command: in.Command, cwd: dir, begun: time.Now().UTC()}
	if len(in.Args) > 0 {
		p.command = quoteAll(in.argv())
	}
	if err := s.table.add(p); err != nil {
		return nil, err
	}
	var run *started
	if c.terminal, err = in.open(s.inDriver(c.runtime)); err == nil {
		run, err = s.startCommand(ctx, req, c, &p.log, &p.log)
	}
	if err != nil {
		s.table.remove(p)
		return nil, err
	}
	p.mu.Lock()
	p.run = run
	p.mu.Unlock()
	go func() {
		<-run.done
		p.mu.Lock()
		p.ended = time.Now().UTC()
		p.mu.Unlock()
		p.log.end()
		run.kill() // removes what is left
	}()
	s.table.mu.Lock()
	closed := s.table.closed
	s.table.mu.Unlock()
	if closed || ctx.Err() != nil { // meanwhile
		run.kill()
	}
	return p, ctx.Err()
}

// PIDArgs name a process.
type PIDArgs struct {
	PID int `json:"pid" jsonschema:"process id, as process:start returned it"`
}

func (s *Shell) status() builtin.Tool {
	return builtin.MustTool(builtin.Spec[PIDArgs, Status]{
		Tool: builtin.Define("process:status", "process", "Status of a background process",
			"Tell whether a background process is still running or has finished, and with which exit code.",
			builtin.Hints(true, false, false), map[string]any{"pid": 4711}),
		Run: func(_ context.Context, req *source.Request, in PIDArgs) (Status, []toolroom.Content, error) {
			p, err := s.table.find(req, in.PID)
			if err != nil {
				return Status{}, nil, err
			}
			out := p.status()
			return out, builtin.Text(out.text()), nil
		},
	})
}

// OutputArgs are the arguments of process:output.
type OutputArgs struct {
	PID    int   `json:"pid" jsonschema:"process id"`
	Offset int64 `json:"offset,omitempty" jsonschema:"byte at which to begin; next_offset of the last call continues there"`
	Limit  int   `json:"limit,omitempty" jsonschema:"the most bytes to return"`
	Wait   int   `json:"wait,omitempty" jsonschema:"milliseconds to wait for output if there is none yet"`
}

// OutputResult is the value of process:output.
type OutputResult struct {
	PID        int    `json:"pid" jsonschema:"process id"`
	Output     string `json:"output" jsonschema:"standard output and standard error output in the order of arrival"`
	Offset     int64  `json:"offset" jsonschema:"byte at which output begins"`
	NextOffset int64  `json:"next_offset" jsonschema:"offset for the next call"`
	Missed     int64  `json:"missed_bytes,omitempty" jsonschema:"bytes before output that are no longer kept"`
	Running    bool   `json:"running" jsonschema:"whether the process still runs"`
}

func (s *Shell) output() builtin.Tool {
	return builtin.MustTool(builtin.Spec[OutputArgs, OutputResult]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("process:output"), Title: "Output of a background process",
			Description: "Read or show the output and logs that a background process has printed, from an offset on. It can wait for new output.",
			Hints:       builtin.Hints(true, false, false), Tags: []string{"process"},
			Timeout: time.Minute, DefaultTimeout: time.Minute,
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"pid": 4711, "offset": 0})}},
		},
		Arguments: map[string]builtin.Property{
			"offset": {"minimum": 0, "default": 0}, "limit": {"minimum": 1, "maximum": maxLog, "default": 32 << 10}, "wait": {"minimum": 0, "maximum": 50_000, "default": 0},
		},
		Run: func(ctx context.Context, req *source.Request, in OutputArgs) (OutputResult, []toolroom.Content, error) {
			p, err := s.table.find(req, in.PID)
			if err != nil {
				return OutputResult{}, nil, err
			}
			if in.Wait > 0 {
				p.log.wait(ctx, in.Offset, time.Duration(in.Wait)*time.Millisecond)
			}
			if err := ctx.Err(); err != nil {
				return OutputResult{}, nil, err
			}
			running := p.isRunning() // before reading: an ended process writes no more
			text, from := p.log.read(in.Offset, cmp.Or(in.Limit, 32<<10))
			text = wholeRunes(text)
			out := OutputResult{PID: in.PID, Output: strings.ToValidUTF8(string(text), "\uFFFD"), Offset: from, NextOffset: from + int64(len(text)), Running: running}
			out.Missed = max(0, from-in.Offset)
			return out, builtin.Text(out.Output), nil
		},
	})
}

// KillArgs are the arguments of process:kill.
type KillArgs struct {
	PID    int    `json:"pid" jsonschema:"process id"`
	Signal string `json:"signal,omitempty" jsonschema:"SIGTERM asks the program to end; SIGKILL ends it with all processes that it started"`
}

func (s *Shell) kill() builtin.Tool {
	return builtin.MustTool(builtin.Spec[KillArgs, Status]{
		Tool: toolroom.Tool{
			ID: toolroom.MustParseID("process:kill"), Title: "End a background process",
			Description: "Stop, end or kill a background process by its id.",
			Hints:       builtin.Hints(false, true, false), Guarantee: toolroom.GuaranteeSafe, Tags: []string{"process"},
			Examples: []toolroom.Example{{Arguments: builtin.Arguments(map[string]any{"pid": 4711})}},
		},
		Arguments: map[string]builtin.Property{"signal": {"enum": []string{"SIGTERM", "SIGKILL"}, "default": "SIGTERM"}},
		Predict: func(*source.Request, KillArgs) []toolroom.Effect {
			return []toolroom.Effect{{Kind: toolroom.EffectDestroy}}
		},
		Run: func(ctx context.Context, req *source.Request, in KillArgs) (Status, []toolroom.Content, error) {
			p, err := s.table.find(req, in.PID)
			if err != nil {
				return Status{}, nil, err
			}
			run := p.started()
			if in.Signal == "SIGKILL" {
				run.kill()
			} else {
				run.signal(syscall.SIGTERM)
			}
			// Most programs end at once.
			select {
			case <-run.done:
			case <-time.After(termGrace):
			case <-ctx.Done():
			}
			out := p.status()
			return out, builtin.Text(out.text()), nil
		},
	})
}

const termGrace = time.Second

// NoArgs are the arguments of a tool that has none.
type NoArgs struct{}

// ListResult is the value of process:list.
type ListResult struct {
	Processes []Status `json:"processes" jsonschema:"the processes of the caller, oldest first"`
}

func (s *Shell) list() builtin.Tool {
	return builtin.MustTool(builtin.Spec[NoArgs, ListResult]{
		Tool: builtin.Define("process:list", "process", "List background processes",
			"List which background processes there are: those that this caller started, running and ended.",
			builtin.Hints(true, false, false), map[string]any{}),
		Run: func(_ context.Context, req *source.Request, _ NoArgs) (ListResult, []toolroom.Content, error) {
			out := ListResult{Processes: []Status{}}
			var text strings.Builder
			for _, p := range s.table.usableBy(req.Identity) {
				status := p.status()
				out.Processes = append(out.Processes, status)
				text.WriteString(status.text() + "\n")
			}
			if len(out.Processes) == 0 {
				text.WriteString("No process was started.")
			}
			return out, builtin.Text(text.String()), nil
		},
	})
}

// ring keeps the end of a stream, with the offset of each byte.
type ring struct {
	mu      sync.Mutex
	data    []byte
	first   int64 // offset of data[0]
	ended   bool
	changed chan struct{} // closed by the next write; nil if no call waits
}

func (r *ring) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.data = append(r.data, p...)
	if over := len(r.data) - 2*maxLog; over > 0 {
		cut := len(r.data) - maxLog
		r.first += int64(cut)
		r.data = append([]byte(nil), r.data[cut:]...)
	}
	r.wake()
	return len(p), nil
}

func (r *ring) wake() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

func (r *ring) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.wake()
}

func (r *ring) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.first + int64(len(r.data))
}

// read returns at most n bytes from offset, or from the first kept byte, and the offset of the
// first byte.
func (r *ring) read(offset int64, n int) ([]byte, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := min(max(offset, r.first), r.first+int64(len(r.data)))
	data := r.data[from-r.first:]
	return slices.Clone(data[:min(n, len(data))]), from
}

// wholeRunes removes an incomplete character at the end of text.
func wholeRunes(text []byte) []byte {
	for i := 1; i < utf8.UTFMax && i < len(text); i++ {
		if b := text[len(text)-i]; utf8.RuneStart(b) {
			if b >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-i:]) {
				return text[:len(text)-i]
			}
			break
		}
	}
	return text
}

// wait returns when there is output after offset, the stream or ctx has ended, or the time most
// is over.
func (r *ring) wait(ctx context.Context, offset int64, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		r.mu.Lock()
		if r.ended || r.first+int64(len(r.data)) > offset {
			r.mu.Unlock()
			return
		}
		if r.changed == nil {
			r.changed = make(chan struct{})
		}
		changed := r.changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
