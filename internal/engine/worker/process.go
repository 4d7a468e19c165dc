package worker

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/toolroom/toolroom/internal/engine/lookout"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// Spec is a process to start.
type Spec struct {
	// Path is the binary, as an absolute path. The process sees it elsewhere.
	Path string
	// Args is its argument vector, the name first.
	Args []string
	// Env is its whole environment.
	Env []string
	// Folder is one that the process may read; in its arguments and environment
	// [FolderArg] becomes where it sees it. Empty means none.
	Folder string
	// Memory bounds all that the process uses, in bytes, as well as the machine can;
	// 0 means that nothing does.
	Memory int64
	// Seccomp is the filter of system calls, where there are such.
	Seccomp lockdown.Filter
}

// FolderArg stands for the path at which the process sees its folder.
const FolderArg = "{folder}"

// at puts the path at which a process sees its folder into a list.
func at(folder string, list []string) []string {
	there := make([]string, len(list)) // never nil: that would be this process's own environment
	for i, text := range list {
		there[i] = strings.ReplaceAll(text, FolderArg, folder)
	}
	return there
}

// Process is a started one. It is the stream of its stdin and stdout, whose reader
// reads what the process writes.
type Process struct {
	*lookout.Reader
	in        io.WriteCloser
	out       io.ReadCloser
	kill      func()
	exit      func() int
	isolation string
	words     words
}

// Start starts a process, in all the isolation that the machine reaches.
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
	source, err := lookout.Polled(out)
	if err != nil {
		return nil, err
	}
	p := &Process{Reader: lookout.NewReader(source), in: in, out: out}
	if err := l.launch(p, s, stdin, stdout, stderr); err != nil {
		return nil, err
	}
	go func() {
		defer said.Close()
		_, _ = io.Copy(&p.words, said) // ends with the process
	}()
	// With its own ends open here as well, the process's end would not be seen.
	open = []io.Closer{stdin, stdout, stderr}
	return p, nil
}

// Write writes to its stdin.
func (p *Process) Write(b []byte) (int, error) { return p.in.Write(b) }

// Close closes both directions; the process goes on.
func (p *Process) Close() error { return errors.Join(p.in.Close(), p.out.Close()) }

// Isolation is what it reached, such as wasm+ns+landlock+seccomp.
func (p *Process) Isolation() string { return p.isolation }

// End kills it and returns when it has ended. It may be called twice.
func (p *Process) End() {
	p.kill()
	_ = p.Close() // what is unread or unwritten is of no use any more
}

// ExitCode waits for its end; -1 means that a signal ended it.
func (p *Process) ExitCode() int { return p.exit() }

// LastWords is what it said of its own failure, as the end of a sentence; empty
// if nothing.
func (p *Process) LastWords() string { return p.words.String() }

// words keeps the beginning of what a process says on stderr.
type words struct {
	mu   sync.Mutex
	text []byte
}

// maxWords is enough for a panic's first lines.
const maxWords = 4 << 10

func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if room := maxWords - len(w.text); room > 0 {
		w.text = append(w.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := strings.TrimSpace(string(bytes.ToValidUTF8(w.text, nil))); text != "" {
		return "; it said: " + text
	}
	return ""
}
