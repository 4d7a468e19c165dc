//go:build unix

package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/internal/proc"
)

// nodeProxy is a file of the guest that makes a command in JavaScript use the proxy.
const nodeProxy = ".proxy.cjs"

// runAttached runs a command whose standard input and output are connected to the server by one
// line. It reports the end of the command only after the line has taken all of the command's
// output.
func (r *run) runAttached(ctx context.Context, argv []string) error {
	cmd := r.newCommand(ctx, argv[0], argv[1:]...)
	cmd.Env = append(cmd.Env, r.program.Env...)
	if r.env != nil { // there is a proxy, of which Node must be told
		path := filepath.Join(r.work, nodeProxy)
		if err := os.WriteFile(path, []byte(javascriptProxy), 0o600); err != nil {
			return err
		}
		cmd.Env = append(cmd.Env, "NODE_OPTIONS=--require="+path)
	}
	if r.program.Dir != "" {
		cmd.Dir = r.program.Dir
	}
	var ours pipes
	var theirs []*os.File
	var err error
	if r.program.Rows > 0 {
		if ours, theirs, err = openTerminal(cmd, r.program.Rows, r.program.Columns); err != nil {
			return r.fail(&bridge.Failure{Kind: bridge.FailProgram, Message: fmt.Sprintf("this sandbox has no terminal (%v): leave pty out", err)}, 127)
		}
	} else if ours, theirs, err = openPipes(cmd); err != nil {
		return err
	}
	wait, err := r.startCommand(cmd)
	for _, f := range theirs {
		f.Close()
	}
	go r.discardPrepared()
	if err != nil {
		ours.Close()
		return r.reportStartError(argv[0], err)
	}
	signals, err := r.lines.Open(ctx, bridge.SignalAddress)
	if err == nil {
		go passSignals(signals, cmd.Process.Pid)
		defer signals.Close()
	}
	carried := make(chan struct{})
	line, err := r.lines.Open(ctx, bridge.StdioAddress)
	if err != nil {
		_ = cmd.Cancel()
		ours.Close()
		close(carried)
	} else {
		go func() {
			defer close(carried)
			line.Relay(ours, ours)
		}()
	}
	state := wait()
	ours.output.EndWithin(daemonGrace) // a daemon may keep it open
	select {
	case <-carried:
	case <-ctx.Done():
	}
	return r.reportEnd(ctx, argv[0], state)
}

// passSignals sends the signals that arrive to a process group.
func passSignals(from io.Reader, group int) {
	for signal := make([]byte, 1); ; {
		if _, err := io.ReadFull(from, signal); err != nil {
			return
		}
		_ = syscall.Kill(-group, syscall.Signal(signal[0])) // it may have ended
	}
}

// openPipes gives a command pipes for its standard input and output.
func openPipes(cmd *exec.Cmd) (ours pipes, theirs []*os.File, err error) {
	stdin, input, err := os.Pipe()
	if err != nil {
		return pipes{}, nil, err
	}
	output, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		input.Close()
		return pipes{}, nil, err
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	return pipes{input: input, output: proc.NewOutput(output)}, []*os.File{stdin, stdout}, nil
}

// openTerminal gives a command a terminal, which controls it.
func openTerminal(cmd *exec.Cmd, rows, columns int) (ours pipes, theirs []*os.File, err error) {
	screen, terminal, err := proc.OpenTerminal(rows, columns)
	if err != nil {
		return pipes{}, nil, err
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	proc.Control(cmd.SysProcAttr)
	return pipes{input: screen, output: proc.NewOutput(screen), terminal: true}, []*os.File{terminal}, nil
}

// pipes are the server's ends of the standard input and output of a command.
type pipes struct {
	input    *os.File
	output   *proc.Output
	terminal bool // they are one terminal
}

// Read reads what the command prints. A terminal ends with an error when the last process has
// closed it.
func (p pipes) Read(b []byte) (int, error) {
	n, err := p.output.Read(b)
	if p.terminal && errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// Write writes to the command's input. A command need not read it.
func (p pipes) Write(b []byte) (int, error) {
	_, _ = p.input.Write(b)
	return len(b), nil
}

// CloseWrite ends the input. The end of what is typed into a terminal is a key.
func (p pipes) CloseWrite() error {
	if p.terminal {
		return nil
	}
	return p.input.Close()
}

func (p pipes) Close() error { return errors.Join(p.input.Close(), p.output.Close()) }
