package microvm

import (
	"context"
	"io"
	"maps"
	"syscall"

	"github.com/toolroom/toolroom/sandbox"
)

// instance is a guest in a VM of its own.
type instance struct {
	machine   *machine
	isolation string
	held      map[sandbox.Limit]string
}

func (b *instance) Stream() io.ReadWriteCloser { return b.machine.stream }

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.machine.process.Done():
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	report, ok := b.machine.console.report()
	if !ok { // the VM itself was killed
		return sandbox.Exit{Code: -1, Signal: syscall.SIGKILL.String(), Stderr: b.machine.console.end()}, nil
	}
	exit := sandbox.Exit{Code: report.Code, OOM: report.OOM, Stderr: report.Stderr}
	if report.Signal != 0 {
		exit.Signal = syscall.Signal(report.Signal).String()
	}
	if report.Error != "" {
		exit.Stderr = report.Error
	}
	return exit, nil
}

func (b *instance) Kill(context.Context) error {
	b.machine.kill()
	return nil
}

// Usage returns the monitor's usage, which includes booting the VM.
func (b *instance) Usage() sandbox.Usage {
	select {
	case <-b.machine.process.Done():
		cpu, peak := b.machine.process.Usage()
		return sandbox.Usage{CPU: cpu, PeakMemory: peak}
	default:
		return sandbox.Usage{}
	}
}

func (b *instance) Isolation() string { return b.isolation }

func (b *instance) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
