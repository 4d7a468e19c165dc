package shell

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/sandbox"
)

// Drivers starts commands in sandboxes of drivers, such as docker.
type Drivers interface {
	// Isolation returns the isolation layers of commands in a runtime, or an error that says
	// why commands cannot run there.
	Isolation(ctx context.Context, runtime string) (string, *toolroom.Error)
	// Start starts a command. ctx bounds the start only.
	Start(ctx context.Context, l Launch) (*Launched, error)
}

// Launch is a command for a sandbox of a driver.
type Launch struct {
	// Runtime is the name of the driver, optionally with one of its runtimes: docker/runsc.
	Runtime string
	Command []string
	Dir     string
	Env     []string
	Folders []sandbox.Folder
	// Online lets the command make the connections that the rules of egress permit.
	Online bool
	Stderr io.Writer
	// Rows and Columns, if not 0, give the command a terminal of that size. Stdin is then typed
	// into the terminal, and Stdout is its output.
	Rows, Columns int
}

// Launched is a started command. Its Stdout ends when the command has ended.
type Launched struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser
	// Done is closed when the sandbox has been removed; Exit is valid then.
	Done <-chan struct{}
	Exit func() Exit
	// Signal sends a signal to the command's process group.
	Signal func(syscall.Signal)
	// Kill ends the command with all its processes. It may return before they have ended.
	Kill func()
}

// Exit describes how a command ended.
type Exit struct {
	Code     int
	Signal   syscall.Signal // 0 if none ended it
	Exceeded string         // the limit that ended it
	CPU      time.Duration
	Memory   int64
	Err      error // the sandbox failed
}

// driverStateFile is the file to which a command in a driver's sandbox writes the state of its
// session.
const driverStateFile = "/run/session"

// saveStateInDriver is like saveStateScript, for a driver's sandbox, where a command gets no
// file 3. It first writes the variables with which the command begins.
const saveStateInDriver = "exec 3>" + driverStateFile + `
{ command env -0; printf '\0'; } >&3
` + saveStateScript

// driverShell runs its arguments with the shell of an image: bash if there is one, else sh.
var driverShell = []string{"/bin/sh", "-c", `command -v bash >/dev/null && exec bash "$@"; exec sh "$@"`, "sh"}

// driverPIDs numbers the commands in drivers' sandboxes, because their process ids are not
// known. The numbers are greater than any process id of Linux.
var driverPIDs atomic.Int64

const firstDriverPID = 10_000_000

// startInDriver starts a command in a driver's sandbox.
func (s *Shell) startInDriver(ctx context.Context, c command, out, errOut io.Writer) (*started, error) {
	layers, missing := s.o.Drivers.Isolation(ctx, c.runtime)
	if missing != nil {
		return nil, missing
	}
	l := Launch{
		Runtime: c.runtime, Command: c.argv, Dir: c.dir, Env: c.env, Stderr: errOut,
		Online: s.o.Proxy != nil && !c.offline && len(restrict.Hosts(c.rules)) == 0,
	}
	if c.terminal != nil {
		l.Rows, l.Columns = c.terminal.rows, c.terminal.columns
	}
	for _, rule := range c.rules {
		if rule.Kind == toolroom.EffectCommand { // an image has programs of its own
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the policy's rule about %s cannot be enforced in %s, so no command runs there", rule, c.runtime).
				WithHint("write in toolroom.yaml: builtin: {shell: {runtime: process}}").WithCLIHint("see the rules: toolroom policy show")
		}
	}
	var err error
	if l.Folders, err = s.driverFolders(c); err != nil {
		return nil, err
	}
	if l.Command[0] == shellPath() {
		l.Command = slices.Concat(driverShell, l.Command[1:])
	}
	if c.state != nil {
		l.Folders = append(l.Folders, sandbox.Folder{Source: c.state.Name(), Target: driverStateFile, Writable: true})
	}
	p, err := s.o.Drivers.Start(ctx, l)
	if errors.Is(err, exec.ErrNotFound) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "the sandbox of commands in %s has no program %s", c.runtime, c.argv[0]).
			WithHint("name an image that has it in toolroom.yaml: builtin: {shell: {image: …}}")
	}
	if err != nil {
		return nil, err
	}
	st := &started{pid: int(firstDriverPID + driverPIDs.Add(1)), isolation: layers, done: make(chan struct{})}
	var killed atomic.Bool
	st.kill = func() {
		killed.Store(true)
		p.Kill()
		<-st.done
	}
	st.signal = p.Signal
	var io_ sync.WaitGroup
	if c.terminal != nil {
		c.terminal.relayInput(&io_, c.stdin, p.Stdin)
	} else {
		io_.Go(func() {
			defer p.Stdin.Close()
			_, _ = p.Stdin.Write(c.stdin) // the command need not read it
		})
	}
	io_.Go(func() { _, _ = io.Copy(out, p.Stdout) })
	go func() {
		<-p.Done
		p.Stdout.Close()
		if c.terminal != nil {
			c.terminal.close()
		}
		io_.Wait()
		e := p.Exit()
		st.exit = exitState{code: e.Code, exceeded: e.Exceeded, cpu: e.CPU, memory: e.Memory, err: e.Err}
		if e.Err != nil && killed.Load() {
			e.Signal, st.exit.err = syscall.SIGKILL, nil
		}
		if e.Signal != 0 {
			st.exit.code, st.exit.signal = -1, e.Signal.String()
		}
		close(st.done)
	}()
	return st, nil
}

// driverFolders returns the folders of this machine that a command sees: the configured ones,
// without hidden and forbidden paths, and its home.
func (s *Shell) driverFolders(c command) ([]sandbox.Folder, error) {
	binds, err := s.binds()
	if err != nil {
		return nil, err
	}
	for i := range binds {
		binds[i].Writable = binds[i].Writable && !c.readOnly
	}
	mounts, err := s.ruleMounts(c.rules, lockdown.System(), binds)
	if err != nil {
		return nil, err
	}
	for _, b := range mounts {
		// Files elsewhere are those of an image, and read-only; at most they are hidden, as
		// they are on this machine.
		if b.Source != b.Target || slices.ContainsFunc(binds, func(f lockdown.Bind) bool { return f.Target == "" && within(b.Target, f.Source) }) {
			binds = append(binds, b)
		}
	}
	if c.home != "" {
		binds = append(binds, lockdown.Bind{Source: c.home, Target: sandboxHome, Writable: true})
	}
	// An outer folder is mounted first, or it would hide the inner one.
	slices.SortStableFunc(binds, func(a, b lockdown.Bind) int {
		return cmp.Compare(strings.Count(cmp.Or(a.Target, a.Source), "/"), strings.Count(cmp.Or(b.Target, b.Source), "/"))
	})
	shown := make([]sandbox.Folder, len(binds))
	for i, b := range binds {
		shown[i] = sandbox.Folder{Source: b.Source, Target: cmp.Or(b.Target, b.Source), Writable: b.Writable}
	}
	return shown, nil
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
