//go:build unix

package guest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed" // of guest.cjs
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/proc"
)

//go:embed javascript/guest.cjs
var javascriptGuest string

// javascriptProxy makes all connections of Node use the proxy.
//
//go:embed javascript/proxy.cjs
var javascriptProxy string

//go:embed javascript/packages.cjs
var javascriptPackages string

// interpreter is the interpreter of a language. It speaks the bridge protocol
// itself, on file descriptor 3.
type interpreter struct {
	files func() map[string]string
	// args returns the arguments of the interpreter at path, whose files are in folder.
	args func(path, folder string) []string
}

var interpreters = map[string]interpreter{
	"python": {
		files: PythonFiles,
		// -I would also ignore the folder of the script. The guest does later what -S
		// leaves out, if a program could notice.
		args: func(_, folder string) []string {
			return []string{"-s", "-E", "-B", "-S", "-X", "utf8", filepath.Join(folder, "main.py")}
		},
	},
	"javascript": {
		files: func() map[string]string {
			return map[string]string{"guest.cjs": javascriptGuest, "proxy.cjs": javascriptProxy, "packages.cjs": javascriptPackages, "prelude.js": quickjs.Prelude()}
		},
		args: func(path, folder string) []string {
			script := filepath.Join(folder, "guest.cjs")
			if filepath.Base(path) == "deno" {
				return append(denoArgs(), script)
			}
			if os.Getenv(EgressEnv) != "" {
				return []string{"--require", filepath.Join(folder, "proxy.cjs"), script} // in worker threads, too
			}
			return []string{script}
		},
	},
	"wasm": {
		files: func() map[string]string { return nil },
		args:  func(_, _ string) []string { return []string{MainArg, wasmArg} },
	},
}

// denoArgs gives a program the same permissions in Deno as in Node: everything that
// the sandbox allows.
func denoArgs() []string {
	args := []string{"run", "--allow-all", "--no-prompt", "--no-config", "--no-lock", "--quiet"}
	if os.Getenv(RlimitEnv) != "" {
		// The memory that V8 reserves for machine code counts towards the data limit.
		args = append(args, "--v8-flags=--jitless")
	}
	return args
}

func writeFiles(folder string, files map[string]string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil { // it exists if an unused interpreter was prepared
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// bridgeFD is the file descriptor of the bridge in an interpreter.
const bridgeFD = 3

// interpreterProcess is an interpreter process that runs a program, or waits for one.
type interpreterProcess struct {
	path   string
	stream net.Conn
	kill   func() error
	wait   func() *os.ProcessState
}

// end ends an interpreter that has no program.
func (i *interpreterProcess) end() {
	i.stream.Close()
	_ = i.kill()
	i.wait()
}

// findInterpreter returns the path of a language's interpreter, or "" if there is none.
func findInterpreter(language string) string {
	if language == "wasm" {
		self, _ := os.Executable() // without one, it is not found
		return self
	}
	for _, name := range interpreterNames(language) {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// launch starts the interpreter of a language, which then waits for its program.
// launch may be called before the program is known.
func (r *run) launch(ctx context.Context, language, path string, env ...string) (*interpreterProcess, error) {
	lang, folder := interpreters[language], os.Getenv(PythonEnv)
	if language != "python" || folder == "" {
		folder = filepath.Join(r.work, ".guest")
		if err := writeFiles(folder, lang.files()); err != nil {
			return nil, err
		}
	}
	ours, theirs, err := proc.SocketPair(syscall.SOCK_STREAM)
	if err != nil {
		return nil, fmt.Errorf("make the stream of the interpreter: %w", err)
	}
	cmd := r.newCommand(ctx, path, lang.args(path, folder)...)
	cmd.Env = append(append(cmd.Env, env...), "TOOLROOM_BRIDGE_FD="+strconv.Itoa(bridgeFD))
	cmd.ExtraFiles = []*os.File{theirs}
	wait, err := r.startCommand(cmd)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	return &interpreterProcess{path, ours, cmd.Cancel, wait}, nil
}

// interpret runs the program in i, or in a new interpreter if i is nil, or if i ended before
// it had read the program.
func (r *run) interpret(ctx context.Context, i *interpreterProcess) (err error) {
	waited := i != nil
	if i == nil {
		path := findInterpreter(r.program.Language)
		if path == "" {
			return r.fail(&bridge.Failure{
				Kind: bridge.FailUnsupported,
				Message: fmt.Sprintf("this sandbox has no %s (looked for %s)", r.program.Language,
					strings.Join(interpreterNames(r.program.Language), ", ")),
			}, 0)
		}
		if i, err = r.launch(ctx, r.program.Language, path, r.program.Env...); err != nil {
			return err
		}
		if r.program.Language != aheadLanguage() || len(r.program.Env) > 0 {
			go r.discardPrepared()
		}
	}
	defer i.stream.Close()
	child := bridge.NewWire(i.stream)
	wrote := make(chan error, 1)
	go func() { wrote <- r.sendProgram(child) }() // a child that does not read must not block this goroutine
	sent, err := r.relay(child)
	i.stream.Close()
	state := i.wait()
	if err == nil {
		return nil
	}
	if unsent := <-wrote; waited && sent == 0 && ctx.Err() == nil && notRead(err, unsent) {
		r.mu.Lock()
		r.child = nil
		r.mu.Unlock()
		return r.interpret(ctx, nil)
	}
	return r.fail(r.crashFailure(ctx, i.path, state), state.ExitCode())
}

// sendProgram sends the program to an interpreter, and then the frames for it that have come
// meanwhile: a cancel must not precede its program.
func (r *run) sendProgram(child *bridge.Wire) error {
	if err := child.Write(r.start); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.child = child
	for _, f := range r.early {
		_ = child.Write(f) // as in listen
	}
	r.early = nil
	return nil
}

// notRead reports whether a child whose stream ended with an error had not read all that was
// written to it, so that nothing of the program has run. Unsent is the error of writing the
// program.
func notRead(err, unsent error) bool {
	// The kernel reports a reset if the other end is closed while data waits there.
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) && unsent != nil
}

// relay forwards the child's frames to the server, including the one that ends the run. It
// returns how many there were, and an error unless one of them ended the run.
func (r *run) relay(child *bridge.Wire) (sent int, err error) {
	for ; ; sent++ {
		f, _, err := child.Read()
		if err != nil {
			return sent, err
		}
		if r.server.Write(f) != nil {
			return sent, nil // the server is gone
		}
		if f.Kind == bridge.Done || f.Kind == bridge.Failed {
			return sent, nil
		}
	}
}

// crashFailure describes the end of an interpreter that sent no outcome.
func (r *run) crashFailure(ctx context.Context, path string, state *os.ProcessState) *bridge.Failure {
	f := &bridge.Failure{Kind: bridge.FailProgram, Message: fmt.Sprintf("%s ended while the program was running: %s", filepath.Base(path), state)}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		limit := time.Duration(r.program.Limits.CPU) * time.Millisecond
		outOfCPU := limit > 0 && state.UserTime()+state.SystemTime() >= limit
		switch signal := status.Signal(); {
		// A program that ignores SIGXCPU, as Go programs do, gets SIGKILL after it.
		case signal == syscall.SIGXCPU, signal == syscall.SIGKILL && outOfCPU:
			f.Kind, f.Limit, f.Message = bridge.FailLimit, "cpu", "the program exceeded its limit of CPU time"
		case signal == syscall.SIGKILL:
			f.Kind, f.Limit = bridge.FailLimit, "memory"
			f.Message = "the program was killed, probably because it exceeded its memory limit"
		}
	}
	if cause := context.Cause(ctx); errors.Is(cause, errBroken) {
		f.Kind, f.Limit, f.Message = bridge.FailProgram, "", cause.Error()
	} else if cause != nil {
		f.Kind, f.Limit, f.Message = bridge.FailCancelled, "", "the run was cancelled"
	}
	return f
}

// withRlimits returns a command that sets rlimits and then executes path. The data
// segment counts private writable memory (getrlimit(2)); the address space would
// also count memory that runtimes such as Go's and V8's only reserve.
func withRlimits(l bridge.Limits, path string, args []string) (string, []string) {
	script := ""
	if l.Memory > 0 && os.Getenv(RlimitEnv) != "cpu" {
		script += fmt.Sprintf("ulimit -d %d; ", l.Memory>>10)
	}
	if l.CPU > 0 {
		// SIGXCPU, sent at the soft limit, names the reason; the hard limit sends SIGKILL.
		seconds := (l.CPU + 999) / 1000
		script += fmt.Sprintf("ulimit -St %d; ulimit -Ht %d; ", seconds, seconds+1)
	}
	return "sh", append([]string{"-c", script + `exec "$@"`, "sh", path}, args...)
}

// newCommand returns a command for the program, in its own process group and without
// the program's environment.
func (r *run) newCommand(ctx context.Context, path string, args ...string) *exec.Cmd {
	if found, err := exec.LookPath(path); err == nil && os.Getenv(RlimitEnv) != "" {
		path, args = withRlimits(r.program.Limits, found, args)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = r.work
	cmd.Env = append(os.Environ(), "HOME="+r.work, "TMPDIR="+r.work, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, r.env...)
	cmd.SysProcAttr = childAttributes()
	cmd.WaitDelay = daemonGrace // for a process that holds stdin without reading it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// daemonGrace is how long output is still read after the end of its program, if the program
// has left a process that holds it.
const daemonGrace = time.Second

// startCommand starts cmd and streams its output, except a Stdout or Stderr that is set, to the server. wait returns when cmd has
// ended and all its output has been sent; it kills the processes that cmd has left
// running in its process group.
func (r *run) startCommand(cmd *exec.Cmd) (wait func() *os.ProcessState, err error) {
	var copying sync.WaitGroup
	var writers []*os.File
	var readers []*proc.Output
	pipe := func(stream string) (*os.File, error) {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		output := proc.NewOutput(read)
		writers, readers = append(writers, write), append(readers, output)
		copying.Go(func() {
			defer output.Close()
			r.streamOutput(stream, output)
		})
		return write, nil
	}
	if cmd.Stderr == nil {
		var stderr *os.File
		if stderr, err = pipe("stderr"); err != nil {
			return nil, err
		}
		cmd.Stderr = stderr
	}
	if cmd.Stdout == nil {
		var stdout *os.File
		if stdout, err = pipe("stdout"); err == nil {
			cmd.Stdout = stdout
		}
	}
	if err == nil {
		err = r.children.start(cmd)
	}
	for _, w := range writers {
		w.Close()
	}
	if err != nil {
		return nil, err
	}
	return func() *os.ProcessState {
		r.children.wait(cmd)
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		// A daemon in a session of its own keeps the pipes open. It ends with the sandbox,
		// but its program has ended now.
		for _, output := range readers {
			output.EndWithin(daemonGrace)
		}
		copying.Wait()
		return cmd.ProcessState
	}, nil
}

// streamOutput sends the output of a process, without splitting a rune.
func (r *run) streamOutput(stream string, from io.Reader) {
	in := bufio.NewReader(from)
	held := make([]byte, 0, 64<<10)
	buf := make([]byte, 32<<10)
	for {
		n, err := in.Read(buf)
		held = append(held, buf[:n]...)
		whole := len(held)
		if err == nil {
			whole -= partialRune(held)
		}
		if whole > 0 {
			text := string(bytes.ToValidUTF8(held[:whole], []byte("\uFFFD")))
			if r.send(bridge.Print, 0, bridge.Map{{Key: "stream", Value: stream}, {Key: "text", Value: text}}) != nil {
				return
			}
			held = append(held[:0], held[whole:]...)
		}
		if err != nil {
			return
		}
	}
}

// partialRune returns the number of bytes at the end of b that begin an incomplete
// rune.
func partialRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// aheadLanguage returns the language whose interpreter is prepared. By default it is the
// one that takes longest to start.
func aheadLanguage() string { return cmp.Or(os.Getenv(AheadLanguageEnv), "python") }

// waitForRelease prepares an interpreter, if there is one, writes [Held], and returns when it
// has read a byte. The driver may take a snapshot of the sandbox at this point and
// start it many times, so everything that must differ between runs is made later.
func (r *run) waitForRelease(ctx context.Context, stream io.ReadWriter) (err error) {
	if r.ahead, err = r.prepare(ctx); err != nil {
		return err
	}
	if _, err := io.WriteString(stream, Held); err != nil {
		return fmt.Errorf("report that the guest waits: %w", err)
	}
	_, err = io.ReadFull(stream, make([]byte, 1))
	return err
}

// prepare starts an interpreter that waits for its program. It returns nil if there
// is no interpreter, or if its limits depend on the program.
func (r *run) prepare(ctx context.Context) (*interpreterProcess, error) {
	path := findInterpreter(aheadLanguage())
	if path == "" || os.Getenv(RlimitEnv) != "" {
		return nil, nil
	}
	i, err := r.launch(ctx, aheadLanguage(), path, HoldEnv+"=1")
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", path, err)
	}
	if _, err := io.ReadFull(i.stream, make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("%s ended before it received a program: %s", path, i.wait())
	}
	return i, nil
}
