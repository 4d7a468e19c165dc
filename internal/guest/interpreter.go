//go:build unix

package guest

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // of guest.cjs
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
	"unicode/utf8"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/guest/prelude"
)

//go:embed javascript/guest.cjs
var javascriptGuest string

// interpreter is a language whose runtime speaks the bridge itself, on file
// descriptor 3.
type interpreter struct {
	files func() map[string]string
	// args are those of the program at path, with the files in folder.
	args func(path, folder string) []string
}

var interpreters = map[string]interpreter{
	"python": {
		files: PythonFiles,
		// -I alone would also ignore the folder of the script; what -S leaves out
		// the guest adds where a program could tell.
		args: func(_, folder string) []string {
			return []string{"-s", "-E", "-B", "-S", "-X", "utf8", filepath.Join(folder, "main.py")}
		},
	},
	"javascript": {
		files: func() map[string]string {
			return map[string]string{"guest.cjs": javascriptGuest, "prelude.js": prelude.JavaScript()}
		},
		args: func(path, folder string) []string {
			script := filepath.Join(folder, "guest.cjs")
			if filepath.Base(path) == "deno" {
				return append(denoArgs(), script)
			}
			return []string{script}
		},
	},
	"wasm": {
		files: func() map[string]string { return nil },
		args:  func(_, _ string) []string { return []string{MainArg, wasmArg} },
	},
}

// denoArgs give a program in Deno what one in Node has: all that the sandbox lets
// through.
func denoArgs() []string {
	args := []string{"run", "--allow-all", "--no-prompt", "--no-config", "--no-lock", "--quiet"}
	if os.Getenv(RlimitEnv) != "" {
		// What its V8 reserves for machine code counts as data.
		args = append(args, "--v8-flags=--jitless")
	}
	return args
}

func write(folder string, files map[string]string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil { // it is there where one was prepared in vain
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// bridgeFD is the descriptor of the stream in an interpreter.
const bridgeFD = 3

// interpreting is an interpreter that runs a program, or waits for one.
type interpreting struct {
	path   string
	stream net.Conn
	kill   func() error
	wait   func() *os.ProcessState
}

// end ends one that no program is for.
func (i *interpreting) end() {
	i.stream.Close()
	_ = i.kill()
	i.wait()
}

// find is the path of the interpreter of a language, empty where there is none.
func find(language string) string {
	if language == "wasm" {
		self, _ := os.Executable() // without one, it is not found
		return self
	}
	for _, name := range programs(language) {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// launch starts the interpreter of a language, which waits for its program. It
// may be called before that is known.
func (r *run) launch(ctx context.Context, language, path string, env ...string) (*interpreting, error) {
	lang, folder := interpreters[language], os.Getenv(PythonEnv)
	if language != "python" || folder == "" {
		folder = filepath.Join(r.work, ".guest")
		if err := write(folder, lang.files()); err != nil {
			return nil, err
		}
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, fmt.Errorf("make the stream of the interpreter: %w", err)
	}
	cmd := r.newCommand(ctx, path, lang.args(path, folder)...)
	cmd.Env = append(append(cmd.Env, env...), "TOOLROOM_BRIDGE_FD="+strconv.Itoa(bridgeFD))
	cmd.ExtraFiles = []*os.File{theirs}
	wait, err := r.begin(cmd)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	return &interpreting{path, ours, cmd.Cancel, wait}, nil
}

// interpret runs the program in i, or in an interpreter that starts now.
func (r *run) interpret(ctx context.Context, i *interpreting) (err error) {
	if i == nil {
		path := find(r.program.Language)
		if path == "" {
			return r.fail(&bridge.Failure{
				Kind: bridge.FailUnsupported,
				Message: fmt.Sprintf("this sandbox has no %s (looked for %s)", r.program.Language,
					strings.Join(programs(r.program.Language), ", ")),
			}, 0)
		}
		if i, err = r.launch(ctx, r.program.Language, path, r.program.Env...); err != nil {
			return err
		}
		if r.program.Language != aheadLanguage || len(r.program.Env) > 0 {
			go r.release()
		}
	}
	defer i.stream.Close()
	child := bridge.NewWire(i.stream, 0)
	r.mu.Lock()
	r.child = child
	r.mu.Unlock()
	go func() { _ = child.Write(r.start) }() // a child that reads nothing must not hold us
	ended := r.relay(child)
	i.stream.Close()
	state := i.wait()
	if ended {
		return nil
	}
	return r.fail(crash(ctx, i.path, state), state.ExitCode())
}

// relay hands the child's frames to the host, up to the one that ends the run,
// and tells whether there was one.
func (r *run) relay(child *bridge.Wire) bool {
	for {
		f, _, err := child.Read()
		if err != nil {
			return false
		}
		if err := r.host.Write(f); err != nil {
			return true // nobody is there to be told
		}
		if f.Kind == bridge.Done || f.Kind == bridge.Failed {
			return true
		}
	}
}

// crash says why an interpreter ended without a word.
func crash(ctx context.Context, path string, state *os.ProcessState) *bridge.Failure {
	f := &bridge.Failure{Kind: bridge.FailProgram, Message: fmt.Sprintf("%s ended in the middle of the program: %s", filepath.Base(path), state)}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		switch status.Signal() {
		case syscall.SIGKILL:
			f.Kind, f.Limit = bridge.FailLimit, "memory"
			f.Message = "the program was killed, most likely for using more memory than it may"
		case syscall.SIGXCPU:
			f.Kind, f.Limit, f.Message = bridge.FailLimit, "cpu", "the program used more CPU time than it may"
		}
	}
	if ctx.Err() != nil {
		f.Kind, f.Limit, f.Message = bridge.FailCancelled, "", "the run was cancelled"
	}
	return f
}

func socketPair() (net.Conn, *os.File, error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, err
	}
	syscall.CloseOnExec(fds[0])
	ours := os.NewFile(uintptr(fds[0]), "bridge")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	theirs := os.NewFile(uintptr(fds[1]), "bridge")
	if err != nil {
		theirs.Close()
	}
	return conn, theirs, err
}

// limited is a command whose rlimits are set before it begins. The data segment
// counts private writable memory (getrlimit(2)); the address space would count
// what runtimes such as Go's and V8's only reserve.
func limited(l bridge.Limits, path string, args []string) (string, []string) {
	script := ""
	if l.Memory > 0 && os.Getenv(RlimitEnv) != "cpu" {
		script += fmt.Sprintf("ulimit -d %d; ", l.Memory>>10)
	}
	if l.CPU > 0 {
		// SIGXCPU comes at the lower one and says why; at the higher it is SIGKILL.
		seconds := (l.CPU + 999) / 1000
		script += fmt.Sprintf("ulimit -St %d; ulimit -Ht %d; ", seconds, seconds+1)
	}
	return "sh", append([]string{"-c", script + `exec "$@"`, "sh", path}, args...)
}

// newCommand is a process for the program, in a group of its own and without the
// program's environment.
func (r *run) newCommand(ctx context.Context, path string, args ...string) *exec.Cmd {
	if found, err := exec.LookPath(path); err == nil && os.Getenv(RlimitEnv) != "" {
		path, args = limited(r.program.Limits, found, args)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = r.work
	cmd.Env = append(os.Environ(), "HOME="+r.work, "TMPDIR="+r.work, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Env = append(cmd.Env, r.env...)
	cmd.SysProcAttr = childAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// begin starts cmd with its output going to the host as it comes. wait returns
// when it has ended and all its output is with the host; what it left running
// is killed.
func (r *run) begin(cmd *exec.Cmd) (wait func() *os.ProcessState, err error) {
	var copying sync.WaitGroup
	var writers []*os.File
	pipe := func(stream string) (*os.File, error) {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		writers = append(writers, write)
		copying.Go(func() {
			defer read.Close()
			r.print(stream, read)
		})
		return write, nil
	}
	stdout, err := pipe("stdout")
	if err != nil {
		return nil, err
	}
	stderr, err := pipe("stderr")
	if err == nil {
		cmd.Stdout, cmd.Stderr = stdout, stderr
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
		copying.Wait()
		return cmd.ProcessState
	}, nil
}

// print sends what a process writes, without cutting a rune in two.
func (r *run) print(stream string, from io.Reader) {
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
			if r.tell(bridge.Print, 0, bridge.Map{{Key: "stream", Value: stream}, {Key: "text", Value: text}}) != nil {
				return
			}
			held = append(held[:0], held[whole:]...)
		}
		if err != nil {
			return
		}
	}
}

// partialRune is how many bytes at the end of b begin a rune that is not whole.
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
