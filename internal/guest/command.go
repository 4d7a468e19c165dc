//go:build unix

package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/toolroom/toolroom/bridge"
)

// runCommand runs a shell script, or a command with its arguments. The program calls
// tools with the command `tool` (see [CallTool]).
func (r *run) runCommand(ctx context.Context) error {
	argv := r.program.Command
	if err := r.writeFiles(); err != nil {
		return err
	}
	if r.program.Language == "shell" {
		script := filepath.Join(r.work, ".guest-script")
		if err := os.WriteFile(script, []byte(r.program.Source), 0o600); err != nil {
			return err
		}
		argv = append([]string{"sh", script}, argv...)
	}
	if len(argv) == 0 || argv[0] == "" {
		return r.fail(&bridge.Failure{Kind: bridge.FailSyntax, Message: "the command is empty: give at least its name"}, 2)
	}
	if r.program.Attached {
		return r.runAttached(ctx, argv)
	}
	calls, env, err := r.serveTools(ctx)
	if err != nil {
		return err
	}
	defer calls.Close()
	cmd := r.newCommand(ctx, argv[0], argv[1:]...)
	cmd.Env = append(append(cmd.Env, r.program.Env...), env...)
	cmd.Stdin = bytes.NewReader(r.program.Stdin)
	wait, err := r.startCommand(cmd)
	go r.discardPrepared()
	if err != nil {
		return r.reportStartError(argv[0], err)
	}
	return r.reportEnd(ctx, argv[0], wait())
}

func (r *run) reportStartError(program string, err error) error {
	f := &bridge.Failure{Kind: bridge.FailProgram, Message: fmt.Sprintf("cannot start %s: %v", program, err)}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		f.Kind, f.Message = bridge.FailUnsupported, fmt.Sprintf("this sandbox has no program %s", program)
	}
	return r.fail(f, 127)
}

// reportEnd reports how a command has ended.
func (r *run) reportEnd(ctx context.Context, program string, state *os.ProcessState) error {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return r.fail(r.crashFailure(ctx, program, state), 128+int(status.Signal()))
	}
	usage := bridge.Map{{Key: "cpu", Value: (state.UserTime() + state.SystemTime()).Milliseconds()}}
	if used, ok := state.SysUsage().(*syscall.Rusage); ok {
		usage = append(usage, bridge.Member{Key: "memory", Value: peakMemory(used)})
	}
	return r.send(bridge.Done, 0, bridge.Map{{Key: "exit", Value: int64(state.ExitCode())}, {Key: "usage", Value: usage}})
}

// writeFiles writes the program's files into its folder. All of them may be executed.
func (r *run) writeFiles() error {
	for _, file := range r.program.Files {
		text, ok := file.Value.(string)
		if !ok || !filepath.IsLocal(file.Key) {
			return fmt.Errorf("the file %q of the program cannot be written", file.Key)
		}
		path := filepath.Join(r.work, file.Key)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			return err
		}
	}
	return nil
}
