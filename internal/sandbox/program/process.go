package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
)

// Protocol is the version of the protocol that both sides must speak.
const Protocol = 1

// SocketEnv is the environment variable with the path of the socket on which the program
// listens.
const SocketEnv = "TOOLROOM_RUNNER_SOCKET"

// Hello is the first line of the program's stdout, in JSON, once it listens.
type Hello struct {
	Protocol int    `json:"protocol"`
	Build    string `json:"build,omitempty"`
	// Drivers are the names of its drivers.
	Drivers []string `json:"drivers"`
}

// process is a running program.
type process struct {
	name     string
	cmd      *exec.Cmd
	socket   string
	lifeline io.Closer // the program ends when this is closed, or with this process
	stderr   proc.Tail
	hello    Hello
	http     *http.Client
	done     chan struct{}
	err      error // of its end; set when done is closed
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// start starts the program and waits until it listens.
func (p *Program) start() (_ *process, err error) {
	path, err := p.o.Find()
	if err != nil {
		return nil, err
	}
	socket, err := newSocket(p.o.Folder)
	if err != nil {
		return nil, unavailable("the folder for the socket of %s: %w", p.o.Name, err).WithHint("the folder must belong to you alone: check --home")
	}
	r := &process{name: p.o.Name, socket: socket, done: make(chan struct{})}
	r.cmd = exec.Command(path, p.o.Args...)
	r.cmd.Env = p.o.Environ
	if r.cmd.Env == nil {
		r.cmd.Env = os.Environ()
	}
	r.cmd.Env = append(r.cmd.Env[:len(r.cmd.Env):len(r.cmd.Env)], SocketEnv+"="+socket)
	r.cmd.SysProcAttr = newProcessGroup() // Ctrl-C reaches this process, which ends the program
	r.cmd.WaitDelay = time.Second
	first := &firstLine{line: make(chan []byte, 1)}
	r.cmd.Stdout = first
	r.cmd.Stderr = io.MultiWriter(&r.stderr, &lineLog{log: p.o.Log, name: p.o.Name})
	if r.lifeline, err = r.cmd.StdinPipe(); err != nil {
		removeSocket(socket)
		return nil, unavailable("start %s: %w", p.o.Name, err)
	}
	if err := r.cmd.Start(); err != nil {
		removeSocket(socket)
		return nil, unavailable("start %s: %w", p.o.Name, err).WithHint("check that %s is a program for this machine", path)
	}
	go func() {
		r.err = r.cmd.Wait()
		removeSocket(socket)
		close(r.done)
	}()
	r.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx) }}}
	if err := p.readHello(r, first.line); err != nil {
		_ = r.cmd.Process.Kill()
		<-r.done
		return nil, err
	}
	return r, nil
}

// readHello reads the program's hello and checks it.
func (p *Program) readHello(r *process, first <-chan []byte) error {
	var line []byte
	select {
	case line = <-first:
	case <-r.done:
		select {
		case line = <-first:
		default:
			return r.crashError()
		}
	case <-p.ctx.Done():
		return unavailable("%s has been stopped", p.o.Name)
	case <-time.After(p.o.Hello):
		return unavailable("%s was started but did not say within %s that it listens", p.o.Name, p.o.Hello).WithHint("the machine may be overloaded")
	}
	if err := json.Unmarshal(line, &r.hello); err != nil {
		return unavailable("%s is not a program with sandbox drivers: its first line is %q", r.cmd.Path, truncate(line, 200))
	}
	if r.hello.Protocol != Protocol {
		return unavailable("%s speaks version %d of the protocol, and version %d is needed", r.cmd.Path, r.hello.Protocol, Protocol).WithHint("install both programs from one package")
	}
	if p.o.Build != "" && r.hello.Build != p.o.Build {
		return unavailable("%s is of build %s, and this program of build %s", r.cmd.Path, r.hello.Build, p.o.Build).
			WithHint("install both programs from one package; if you have just done so, restart the server")
	}
	return nil
}

func truncate(line []byte, most int) string { return string(line[:min(len(line), most)]) }

// dial connects to the program and makes sure that nobody else listens.
func (r *process) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.socket)
	if err != nil {
		return nil, err
	}
	if err := proc.CheckPeer(c, r.cmd.Process.Pid); err != nil {
		c.Close()
		return nil, &foreignListenerError{err}
	}
	return c, nil
}

// foreignListenerError means that somebody else listens on the socket.
type foreignListenerError struct{ error }

func (e *foreignListenerError) Unwrap() error { return e.error }

// endWait is how long a lost connection waits for the end of the process, which explains it.
const endWait = 2 * time.Second

// explainLoss explains why a request got no answer.
func (r *process) explainLoss(err error) error {
	var stranger *foreignListenerError
	switch {
	case errors.As(err, &stranger):
		return unavailable("the socket of %s has been taken over: %w", r.name, stranger.error).
			WithHint("find out which program does so in the folder runner of the home")
	case isContext(err):
		return unavailable("%s was asked, and the request ended: %w", r.name, err)
	}
	select {
	case <-r.done:
		return r.crashError()
	case <-time.After(endWait):
		return unavailable("%s does not answer: %w", r.name, err)
	}
}

// crashError describes the end of the process.
func (r *process) crashError() *toolroom.Error {
	how := "exit code 0"
	if r.err != nil {
		how = r.err.Error()
	}
	message := fmt.Sprintf("%s, the program of this sandbox driver, ended unexpectedly (%s)", r.name, how)
	if said := lastLines(r.stderr.String()); said != "" {
		message += ": " + said
	}
	e := unavailable("%s", message).WithHint("the next run starts it again; what its sandboxes have left is removed then").WithCLIHint("toolroom gc removes it at once")
	e.Retryable = true
	return e
}

// lastLines returns the end of what a crashed program has written: from its panic on, if it
// has panicked.
func lastLines(text string) string {
	if _, after, ok := strings.Cut(text, "panic: "); ok {
		first, _, _ := strings.Cut(after, "\n")
		return "panic: " + first
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "\n")
}

// firstLine is a writer that keeps the first line and discards the rest.
type firstLine struct {
	line chan []byte
	mu   sync.Mutex
	text []byte
	sent bool
}

const maxHello = 64 << 10

func (f *firstLine) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sent {
		return len(p), nil
	}
	f.text = append(f.text, p...)
	if end := bytes.IndexByte(f.text, '\n'); end >= 0 || len(f.text) > maxHello {
		f.line <- f.text[:max(end, 0)]
		f.text, f.sent = nil, true
	}
	return len(p), nil
}

// lineLog logs what is written to it, a line each.
type lineLog struct {
	log  *slog.Logger
	name string
	mu   sync.Mutex
	rest []byte
}

const maxLine = 4 << 10

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		if end < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if end < 0 {
			end = len(l.rest) - 1
		}
		if line := strings.TrimSpace(string(l.rest[:end+1])); line != "" {
			l.log.Warn(line, "program", l.name)
		}
		l.rest = append(l.rest[:0], l.rest[end+1:]...)
	}
}
