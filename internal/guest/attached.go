//go:build unix

package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/toolroom/toolroom/bridge"
)

// nodeProxy is a file of the guest that makes a command in JavaScript use the proxy.
const nodeProxy = ".proxy.cjs"

// attached runs a command whose standard input and output are a line to the server. Both end
// when one of the two does, so that everything that the command has written has been taken
// when its end is reported.
func (r *run) attached(ctx context.Context, argv []string) error {
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
	stdin, input, err := os.Pipe()
	if err != nil {
		return err
	}
	output, stdout, err := os.Pipe()
	if err != nil {
		stdin.Close()
		input.Close()
		return err
	}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	wait, err := r.begin(cmd)
	stdin.Close()
	stdout.Close()
	go r.release()
	if err != nil {
		input.Close()
		output.Close()
		return r.notStarted(argv[0], err)
	}
	carried := make(chan struct{})
	line, err := r.lines.Open(ctx, bridge.StdioAddress)
	if err != nil {
		_ = cmd.Cancel()
		input.Close()
		output.Close()
		close(carried)
	} else {
		go func() {
			defer close(carried)
			line.Carry(output, pipes{input, output})
		}()
	}
	state := wait()
	// A daemon may keep the output open.
	stop := time.AfterFunc(daemonGrace, func() { _ = output.SetReadDeadline(time.Now()) })
	defer stop.Stop()
	select {
	case <-carried:
	case <-ctx.Done():
	}
	return r.ended(ctx, argv[0], state)
}

// pipes are the server's ends of the standard input and output of a command.
type pipes struct{ input, output *os.File }

// Write writes to the command's input. A command need not read it.
func (p pipes) Write(b []byte) (int, error) {
	_, _ = p.input.Write(b)
	return len(b), nil
}

func (p pipes) CloseWrite() error { return p.input.Close() }
func (p pipes) Close() error      { return errors.Join(p.input.Close(), p.output.Close()) }
