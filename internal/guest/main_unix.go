//go:build unix

package guest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/toolroom/toolroom/internal/engine/quickjs"
	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
)

// Main is the main function of toolroom-guest, which may also be part of a larger
// binary. It returns the exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == MainArg {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == lockdown.InitArg {
		return lockdown.Main()
	}
	if len(args) > 0 && args[0] == lockdown.JailArg {
		return lockdown.JailMain(args[1:])
	}
	if len(args) > 0 && args[0] == vm.Arg {
		return vm.Main()
	}
	if len(args) > 0 && args[0] == ToolArg {
		return CallTool(args[1:], os.Stdin, os.Stdout, os.Stderr)
	}
	if len(args) > 0 && args[0] == wasmArg {
		return runModule()
	}
	if len(args) > 0 && args[0] == quickjs.WorkerArg { // this is the smallest binary that can be a worker
		return quickjs.Main(context.Background(), args[1:])
	}
	if len(args) > 0 && args[0] == PodInspectArg {
		if err := inspectPod(os.Stdout, Languages(installed)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if err := confine(os.Getenv(SeccompEnv)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(args) > 0 && args[0] == PodArg {
		return podMain()
	}
	if len(args) > 0 {
		fmt.Fprintf(os.Stderr, "toolroom-guest is started by toolroom inside a sandbox and takes no arguments (got %q)\n", args)
		return 2
	}
	stream, err := claimStdio()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	token, err := hex.DecodeString(os.Getenv(TokenEnv))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", TokenEnv, err)
		return 1
	}
	o := Options{Token: token, Work: os.Getenv(WorkEnv), Hold: os.Getenv(HoldEnv) != "", Ahead: os.Getenv(AheadEnv) != "", Egress: os.Getenv(EgressEnv) != "", Alive: os.Getenv(AliveEnv) != ""}
	os.Unsetenv(TokenEnv)
	os.Unsetenv(HoldEnv)
	os.Unsetenv(AheadEnv)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if err := Serve(ctx, stream, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// installed reports whether the sandbox has a program.
func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}

// confine protects this process from others of its user, turns core dumps off, and installs
// the named seccomp filter.
func confine(filter string) error {
	if err := errors.Join(protectProcess(), disableCoreDumps()); err != nil || filter == "" {
		return err
	}
	return lockdown.Harden(lockdown.Filter(filter), os.Getenv(EgressEnv) != "")
}

// claimStdio reserves stdin and stdout for the bridge: other output to stdout goes to
// stderr, and child processes inherit neither.
func claimStdio() (io.ReadWriteCloser, error) {
	in, err := syscall.Dup(0)
	if err != nil {
		return nil, fmt.Errorf("take over stdin: %w", err)
	}
	out, err := syscall.Dup(1)
	if err != nil {
		return nil, fmt.Errorf("take over stdout: %w", err)
	}
	syscall.CloseOnExec(in)
	syscall.CloseOnExec(out)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := dup(int(null.Fd()), 0); err != nil {
		return nil, err
	}
	if err := dup(2, 1); err != nil {
		return nil, err
	}
	return proc.Stream{ReadCloser: os.NewFile(uintptr(in), "bridge"), WriteCloser: os.NewFile(uintptr(out), "bridge")}, nil
}
