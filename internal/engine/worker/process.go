package worker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// Spec describes a process to start.
type Spec struct {
	// Path is the binary, as an absolute path. The process sees it at another path.
	Path string
	// Args is its argument vector, the name first.
	Args []string
	// Env is its whole environment.
	Env []string
	// Folder is a folder that the process may read, "" for none. In arguments and
	// environment, [FolderArg] is replaced by the path at which the process sees it.
	Folder string
	// Memory bounds the memory of the whole process, in bytes, as well as the
	// machine can; 0 means no bound.
	Memory int64
	// Seccomp is the system call filter, on systems that have seccomp.
	Seccomp lockdown.Filter
}

// FolderArg stands for the path at which the process sees its folder.
const FolderArg = "{folder}"

// replaceFolder returns list with [FolderArg] replaced by folder.
func replaceFolder(folder string, list []string) []string {
	there := make([]string, len(list)) // never nil, which would mean this process's own environment
	for i, text := range list {
		there[i] = strings.ReplaceAll(text, FolderArg, folder)
	}
	return there
}

// Process is a started process. As a stream, it writes to the process's stdin and
// reads from its stdout.
type Process struct {
	in        io.WriteCloser
	out       io.ReadCloser
	kill      func()
	exit      func() int
	isolation string
	stderr    stderrHead
}

// Start starts a process with all the isolation that the machine offers.
func (l *Launcher) Start(s Spec) (_ *Process, err error) {
	var open []io.Closer
	defer func() {
		for _, file := range open {
			_ = file.Close()
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			if r, w, err = os.Pipe(); err == nil {
				open = append(open, r, w)
			}
		}
		return r, w
	}
	stdin, in := pipe()
	out, stdout := pipe()
	said, stderr := pipe()
	if err != nil {
		return nil, err
	}
	p := &Process{in: in, out: out}
	if err := l.launch(p, s, stdin, stdout, stderr); err != nil {
		return nil, err
	}
	go func() {
		defer said.Close()
		_, _ = io.Copy(&p.stderr, said) // ends with the process
	}()
	// If the process's ends of the pipes stayed open here, its end would go unnoticed.
	open = []io.Closer{stdin, stdout, stderr}
	return p, nil
}

// Read reads from the process's stdout.
func (p *Process) Read(b []byte) (int, error) { return p.out.Read(b) }

// Write writes to the process's stdin.
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes both directions. It does not end the process.
func (p *Process) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

// Isolation returns the isolation in effect, such as wasm+ns+landlock+seccomp.
func (p *Process) Isolation() string { return p.isolation }

// End kills the process and returns when it has ended. It may be called twice.
func (p *Process) End() {
	p.kill()
	_ = p.Close() // unread and unwritten data is no longer needed
}

// ExitCode waits for the process to end and returns its exit code, -1 if a signal ended it.
func (p *Process) ExitCode() int { return p.exit() }

// StderrSuffix returns the beginning of what the process wrote on stderr, as the
// end of a sentence, or "" if it wrote nothing.
func (p *Process) StderrSuffix() string { return p.stderr.String() }

// stderrHead is a writer that keeps the beginning of a process's stderr.
type stderrHead struct {
	mu   sync.Mutex
	text []byte
}

// maxStderr is how many bytes of stderr are kept: enough for the first lines of a panic.
const maxStderr = 4 << 10

func (w *stderrHead) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := maxStderr - len(w.text); room > 0 {
		w.text = append(w.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (w *stderrHead) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := strings.TrimSpace(string(bytes.ToValidUTF8(w.text, nil))); text != "" {
		return "; its stderr: " + text
	}
	return ""
}
