package gvisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/tail"
	"github.com/toolroom/toolroom/sandbox"
)

// box is one sandbox of gVisor.
type box struct {
	driver  *Driver
	id      string
	folder  string // the bundle, and the state of runsc
	network string
	held    map[sandbox.Limit]string

	process *proc.Process
	stderr  tail.Tail
	killing sync.Mutex
}

func (b *box) Stream() io.ReadWriteCloser { return stream{b.process} }

type stream struct{ p *proc.Process }

func (s stream) Read(p []byte) (int, error)  { return s.p.Stdout.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.p.Stdin.Write(p) }
func (s stream) Close() error                { return errors.Join(s.p.Stdin.Close(), s.p.Stdout.Close()) }

func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.process.Done():
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	exit := sandbox.Exit{Stderr: b.stderr.String()}
	var failed *exec.ExitError
	if errors.As(b.process.Err(), &failed) {
		exit.Code = failed.ExitCode()
	}
	if exit.Code > 128 && exit.Code < 128+65 {
		exit.Signal = syscall.Signal(exit.Code - 128).String()
	}
	return exit, nil
}

// Kill ends the sandbox, and removes its cgroups and its bundle.
func (b *box) Kill(ctx context.Context) error {
	b.killing.Lock()
	defer b.killing.Unlock()
	if b.folder == "" {
		return nil
	}
	// With runsc end the processes that it is attached to; what is left, among it
	// the cgroups, it removes by its state.
	b.process.Stop(0)
	remove := exec.CommandContext(ctx, b.driver.program, append(b.flags(), "delete", "--force", b.id)...)
	if out, err := remove.CombinedOutput(); err != nil {
		return fmt.Errorf("runsc delete: %w: %s", err, out)
	}
	if err := removeCgroups(ctx, b.id); err != nil {
		return fmt.Errorf("remove the cgroups: %w", err)
	}
	if err := os.RemoveAll(b.folder); err != nil {
		return err
	}
	b.folder = ""
	return nil
}

// Usage is that of runsc and the processes it waited for, once it has ended.
func (b *box) Usage() sandbox.Usage {
	select {
	case <-b.process.Done():
		cpu, peak := b.process.Usage()
		return sandbox.Usage{CPU: cpu, PeakMemory: peak}
	default:
		return sandbox.Usage{}
	}
}

func (b *box) Isolation() string { return "gvisor(" + b.driver.o.Platform + ")" }

func (b *box) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
