package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/policy"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/restrict"
	"github.com/toolroom/toolroom/source"
)

// started is a started command.
type started struct {
	pid       int
	isolation string
	done      chan struct{}
	// exit is valid once done is closed.
	exit exitState
	// signal sends a signal to the program; kill kills the whole process tree and waits for its
	// end.
	signal func(sig syscall.Signal)
	kill   func()
	// terminal is the command's terminal; nil if it has none.
	terminal *terminal
	// sandbox is the process's sandbox; nil on the host machine.
	sandbox *lockdown.Process
}

// exitState describes how a command ended.
type exitState struct {
	code     int
	signal   string
	exceeded string // the limit that ended it
	cpu      time.Duration
	memory   int64
	err      error // the sandbox failed
}

// startCommand starts a command that writes to out and errOut. The caller must call kill, even
// after the command has ended.
func (s *Shell) startCommand(ctx context.Context, req *source.Request, c command, out, errOut io.Writer) (*started, error) {
	st, err := s.startInRuntime(ctx, req, c, out, errOut)
	switch {
	case err == nil:
		st.terminal = c.terminal
	case c.terminal != nil:
		c.terminal.close()
	}
	return st, err
}

// startInRuntime starts a command in its runtime, if policy permits that.
func (s *Shell) startInRuntime(ctx context.Context, req *source.Request, c command, out, errOut io.Writer) (*started, error) {
	if err := s.checkPolicy(req); err != nil {
		return nil, err
	}
	for _, arg := range c.argv {
		if strings.Contains(arg, "\x00") {
			return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "the command contains a zero byte").WithHint("no argument of a program can have one")
		}
	}
	c.rules = req.Forbidden
	if c.terminal != nil {
		c.env = c.terminal.environ(c.env)
	}
	switch {
	case c.runtime == RuntimeHost:
		return s.startOnHost(c, out, errOut)
	case s.inDriver(c.runtime):
		return s.startInDriver(ctx, c, out, errOut)
	}
	return s.startInSandbox(ctx, c, out, errOut)
}

// checkPolicy returns an error if the runtime does not meet what policy requires of the call.
func (s *Shell) checkPolicy(req *source.Request) error {
	runtime := s.runtimeOf(req)
	if req.Engine != "" && req.Engine != runtime {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires engine %s for this call, but commands run in %s", req.Engine, runtime).
			WithCLIHint("see which rule requires it: toolroom policy explain %s", req.Tool)
	}
	if s.inDriver(runtime) {
		if _, missing := s.o.Drivers.Isolation(context.Background(), runtime); missing != nil {
			return missing
		}
	}
	have := s.Isolation(context.Background(), req)
	if !policy.AtLeast(policy.IsolationOf(have), toolroom.Isolation(req.Isolation)) {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "policy requires isolation %s or stronger, but commands run in %s", req.Isolation, have).
			WithHint("name a sandbox that has it: builtin: {shell: {runtime: gvisor}}, or a rule of the policy with @engine(\"gvisor\")").
			WithCLIHint("see which rule requires it: toolroom policy explain %s", req.Tool)
	}
	return nil
}

func (s *Shell) startOnHost(c command, out, errOut io.Writer) (*started, error) {
	spec := proc.Spec{Command: c.argv[0], Args: c.argv[1:], Env: c.env, Dir: c.dir, Owner: s.o.Owner, Stderr: errOut}
	if !strings.Contains(spec.Command, "/") {
		path, err := findProgram(spec.Command, c.env)
		if err != nil {
			return nil, notFound(c.argv[0])
		}
		spec.Command = path
	}
	if c.state != nil {
		spec.Files = []*os.File{c.state}
	}
	if c.terminal != nil {
		spec.Terminal = c.terminal.theirs
	}
	start := s.o.Start
	if start == nil {
		start = func(spec proc.Spec, _ []toolroom.Effect) (*proc.Process, error) { return proc.Start(spec) }
	}
	p, err := start(spec, c.rules)
	if toolroom.CodeOf(err) == toolroom.CodeSandboxUnavailable {
		return nil, err
	}
	if err != nil {
		return nil, startError(c.argv[0], err)
	}
	st := &started{pid: p.PID(), isolation: "none", done: make(chan struct{}), signal: p.Signal, kill: func() { p.Stop(killGrace) }}
	var io_ sync.WaitGroup
	end := p.EndOutput
	if c.terminal != nil {
		end = func(d time.Duration) { _ = c.terminal.ours.SetReadDeadline(time.Now().Add(d)) } // an error means that it has ended
		c.terminal.serve(&io_, c.stdin, out)
	} else {
		io_.Go(func() {
			defer p.Stdin.Close()
			_, _ = p.Stdin.Write(c.stdin) // the command need not read it
		})
		io_.Go(func() { _, _ = io.Copy(out, p.Stdout) })
	}
	go func() {
		<-p.Done()
		end(drainGrace) // a process that has left the group may hold the output open
		io_.Wait()
		st.exit = exitOf(p.Err())
		st.exit.cpu, st.exit.memory = p.Usage()
		close(st.done)
	}()
	return st, nil
}

const (
	killGrace  = 300 * time.Millisecond
	drainGrace = 500 * time.Millisecond
)

func exitOf(err error) exitState {
	var e *exec.ExitError
	switch {
	case err == nil:
		return exitState{}
	case !errors.As(err, &e):
		return exitState{code: -1, err: err}
	}
	x := exitState{code: e.ExitCode()}
	if status, ok := e.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		x.signal = status.Signal().String()
	}
	return x
}

// searchPath are the folders of programs in every sandbox.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (s *Shell) startInSandbox(ctx context.Context, c command, out, errOut io.Writer) (*started, error) {
	ruled := len(restrict.Hosts(c.rules)) > 0
	spec := lockdown.Spec{
		Path: c.argv[0], Args: c.argv, Env: c.env, Dir: c.dir, Root: lockdown.System(), Network: s.o.Network && !c.offline && !ruled, Loopback: !c.offline,
		Limits: s.o.Limits, Minimum: requiredLayers, BestEffort: true, AsServer: true,
	}
	if !filepath.IsAbs(spec.Path) {
		path := filepath.Join(c.dir, spec.Path)
		if !strings.Contains(spec.Path, "/") {
			var err error
			if path, err = findProgram(spec.Path, c.env); err != nil {
				return nil, notFound(c.argv[0])
			}
		}
		spec.Path = path
	}
	binds, err := s.binds()
	if err != nil {
		return nil, err
	}
	for i := range binds {
		binds[i].Writable = binds[i].Writable && !c.readOnly
	}
	mounts, err := s.ruleMounts(c.rules, spec.Root, binds)
	if err != nil {
		return nil, err
	}
	spec.Binds = slices.Concat(binds, mounts)
	if c.home != "" {
		spec.Binds = append(spec.Binds, lockdown.Bind{Source: c.home, Target: sandboxHome, Writable: true})
	}
	var ports []uint16
	if spec.Loopback && !spec.Network {
		if c.servers != nil {
			ports = c.servers.ports()
		}
		spec.Listen = ports
		if s.o.Proxy != nil && !ruled {
			spec.Listen = append(slices.Clone(ports), proxyPort)
			spec.Env = append(proc.WithoutProxy(spec.Env), proc.ProxyEnviron(proxyURL)...)
		}
	}
	if c.state != nil {
		spec.Files = []*os.File{c.state}
	}
	var pipes pipes
	if c.terminal != nil {
		spec.Stdin, spec.Stdout, spec.Stderr, spec.Terminal = c.terminal.theirs, c.terminal.theirs, c.terminal.theirs, true
	} else {
		if pipes, err = openPipes(3); err != nil {
			return nil, err
		}
		defer pipes.closeChildEnds()
		spec.Stdin, spec.Stdout, spec.Stderr = pipes[0].read, pipes[1].write, pipes[2].write
	}
	// The command may outlive ctx, which bounds its start only.
	p, err := s.machine.Start(context.WithoutCancel(ctx), spec)
	if err != nil {
		pipes.closeOurEnds()
		return nil, explain(c.argv[0], err)
	}
	s.serveSandboxSockets(p, c.servers, ports)
	st := &started{
		pid: p.PID(), isolation: p.Layers().String(), done: make(chan struct{}), sandbox: p,
		signal: func(sig syscall.Signal) { _ = p.Signal(sig) }, // an error means that it has ended
		kill:   p.Kill,
	}
	var io_ sync.WaitGroup
	if c.terminal != nil {
		c.terminal.serve(&io_, c.stdin, out)
	} else {
		pipes.serve(&io_, c.stdin, out, errOut)
	}
	go func() {
		exit, err := p.Wait()
		if pipes != nil {
			pipes[0].write.Close() // nobody reads it any more
		}
		io_.Wait() // all processes have ended, so the pipes are closed
		usage := p.Usage()
		st.exit = exitState{code: exit.Code, exceeded: exit.Exceeded, cpu: usage.CPU, memory: usage.Memory, err: err}
		if exit.Signal != 0 {
			st.exit.signal = syscall.Signal(exit.Signal).String()
		}
		close(st.done)
	}()
	return st, nil
}

// binds returns the mounts of a command besides the installed programs: the configured folders,
// with hidden paths replaced and fixed paths read-only.
func (s *Shell) binds() ([]lockdown.Bind, error) {
	var binds []lockdown.Bind
	for _, dir := range s.o.Folders.Dirs() {
		if dir == "/" {
			return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the sandbox cannot show the whole file system").
				WithHint("name the folders in toolroom.yaml: builtin: {file: {roots: [/srv/project]}}")
		}
		binds = append(binds, lockdown.Bind{Source: dir, Writable: true})
	}
	for _, dir := range s.o.Folders.Enclosing() {
		if _, err := os.Stat(dir); err == nil {
			binds = append(binds, lockdown.Bind{Source: dir, Writable: true}) // a mount is not renamed
		}
	}
	for _, path := range s.o.Folders.Hidden() {
		info, err := os.Stat(path)
		if err != nil {
			continue // it does not exist
		}
		empty := filepath.Join(s.o.Scratch, "empty.d")
		if info.IsDir() {
			err = os.MkdirAll(empty, 0o500)
		} else {
			empty = filepath.Join(s.o.Scratch, "empty")
			err = os.WriteFile(empty, nil, 0o400)
			if errors.Is(err, os.ErrPermission) {
				err = nil // it is there already
			}
		}
		if err != nil {
			return nil, fmt.Errorf("hide %s: %w", path, err)
		}
		binds = append(binds, lockdown.Bind{Source: empty, Target: path})
	}
	for _, path := range s.o.Folders.Fixed() {
		if _, err := os.Stat(path); err == nil {
			binds = append(binds, lockdown.Bind{Source: path})
		}
	}
	return binds, nil
}

// ruleMounts returns additional mounts that enforce the policy's rules on a command that sees
// root and binds.
func (s *Shell) ruleMounts(rules []toolroom.Effect, root lockdown.Root, binds []lockdown.Bind) ([]lockdown.Bind, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	v := restrict.View{Scratch: s.o.Scratch}
	for _, name := range append(root.Only, "etc") {
		v.Shown = append(v.Shown, lockdown.Bind{Source: "/" + name})
	}
	for _, b := range binds {
		if b.Target != "" {
			v.Hidden = append(v.Hidden, b.Target)
		} else {
			v.Shown = append(v.Shown, b)
		}
	}
	return restrict.Plan(rules, v)
}

type pipe struct{ read, write *os.File }

type pipes []pipe

// openPipes opens n pipes. The first one is for input.
func openPipes(n int) (pipes, error) {
	all := make(pipes, n)
	for i := range all {
		var err error
		if all[i].read, all[i].write, err = os.Pipe(); err != nil {
			all[:i].closeOurEnds()
			all[:i].closeChildEnds()
			return nil, err
		}
	}
	return all, nil
}

// serve writes the input and copies the output.
func (ps pipes) serve(wg *sync.WaitGroup, input []byte, out, errOut io.Writer) {
	wg.Go(func() {
		defer ps[0].write.Close()
		_, _ = ps[0].write.Write(input)
	})
	for i, to := range []io.Writer{out, errOut} {
		wg.Go(func() {
			defer ps[i+1].read.Close()
			_, _ = io.Copy(to, ps[i+1].read)
		})
	}
}

func (ps pipes) closeChildEnds() {
	for i, p := range ps {
		if i == 0 {
			p.read.Close()
		} else {
			p.write.Close()
		}
	}
}

func (ps pipes) closeOurEnds() {
	for i, p := range ps {
		if i == 0 {
			p.write.Close()
		} else {
			p.read.Close()
		}
	}
}

func explain(program string, err error) error {
	var layer *lockdown.LayerError
	switch {
	case errors.As(err, &layer):
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the command did not run: %w", err).
			WithHint("%s; or write in toolroom.yaml: builtin: {shell: {runtime: host}}", layer.Finding.Fix)
	case strings.Contains(err.Error(), "no such file"):
		return notFound(program)
	default:
		return startError(program, err)
	}
}

func startError(program string, err error) error {
	return toolroom.Errorf(toolroom.CodeExecutionFailed, "%s cannot be started: %w", program, err)
}

func notFound(program string) error {
	return toolroom.Errorf(toolroom.CodeNotFound, "the program %s is not installed", program).
		WithHint("a command line with arguments goes into command alone, without args")
}

// findProgram returns the path of a program in the PATH of env.
func findProgram(name string, env []string) (string, error) {
	for _, entry := range env {
		path, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if found, err := exec.LookPath(filepath.Join(dir, name)); err == nil && filepath.IsAbs(found) {
				return found, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

// sandboxPath returns the PATH of commands in the sandbox: the folders of this machine's PATH
// that exist in the sandbox, and the usual ones.
func (s *Shell) sandboxPath() string {
	var dirs []string
	add := func(dir string) {
		if dir = filepath.Clean(dir); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, entry := range s.o.Environ {
		path, ok := strings.CutPrefix(entry, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(path) {
			if strings.HasPrefix(dir, "/usr/") {
				add(dir)
			}
		}
	}
	for _, dir := range filepath.SplitList(searchPath) {
		add(dir)
	}
	return strings.Join(dirs, ":")
}

// mergeEnv returns the environment of a command: the basic one, then that of the session, then
// the variables of the config. Later ones take precedence.
func (s *Shell) mergeEnv(c command, kept, extra map[string]string) []string {
	env := map[string]string{}
	base := []string{"PATH=" + s.sandboxPath(), "HOME=" + c.homeDir(), "LANG=C.UTF-8", "TMPDIR=/tmp", "TERM=dumb"}
	switch {
	case s.inDriver(c.runtime):
		base = []string{"PATH=" + searchPath, "HOME=" + c.homeDir(), "LANG=C.UTF-8", "TMPDIR=" + lockdown.WorkDir, "TERM=dumb"}
	case c.runtime == RuntimeHost:
		base = append(proc.Environ(s.o.Environ, nil), "TERM=dumb")
	}
	for _, entry := range base {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	maps.Copy(env, kept)
	maps.Copy(env, extra)
	var out []string
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, name+"="+env[name])
	}
	return out
}
