//go:build linux

package containerd

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// instance is one container.
type instance struct {
	driver    *Driver
	container containerd.Container
	task      containerd.Task
	isolation string
	held      map[sandbox.Limit]string

	folder string // contains the FIFOs
	io     *cio.DirectIO
	stderr *proc.Follower
	ended  chan struct{}
	code   int
	lost   error // why the daemon did not say how the task ended

	killing sync.Mutex
}

// makeTimeout bounds the creation of a container, and that of its task. Neither is
// interrupted: the daemon could continue in the background, and make a task of a
// container that has been removed meanwhile.
const makeTimeout = time.Minute

// run starts the guest, with its streams in FIFOs of this process.
func (b *instance) run(ctx context.Context) error {
	var err error
	if b.folder, err = proc.MkdirTemp("", "containerd"); err != nil {
		return err
	}
	whole, done := context.WithTimeout(context.WithoutCancel(ctx), makeTimeout)
	defer done()
	task, err := b.container.NewTask(whole, func(id string) (cio.IO, error) {
		fifos, err := cio.NewFIFOSetInDir(b.folder, id, false)
		if err != nil {
			return nil, err
		}
		b.io, err = cio.NewDirectIO(context.WithoutCancel(ctx), fifos)
		return b.io, err
	})
	if err != nil {
		return err
	}
	if err := b.watch(ctx, task); err != nil {
		return err
	}
	b.stderr = proc.Follow(func(to io.Writer) { _, _ = io.Copy(to, b.io.Stderr) })
	return task.Start(ctx)
}

// watch sets the task of the instance, and waits for its end in the background.
func (b *instance) watch(ctx context.Context, task containerd.Task) error {
	b.task = task
	exit, err := task.Wait(b.driver.withNamespace(context.WithoutCancel(ctx)))
	if err != nil {
		return err
	}
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		code, _, err := (<-exit).Result()
		b.code, b.lost = int(code), err
	}()
	return nil
}

func (b *instance) Stream() io.ReadWriteCloser {
	return proc.Stream{ReadCloser: b.io.Stdout, WriteCloser: b.io.Stdin}
}

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.ended:
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	if b.lost != nil { // the code would be one that the guest did not end with
		return sandbox.Exit{}, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s: the daemon does not say how the container ended: %w", b.driver.name, b.lost).
			WithHint("the daemon may have been restarted; check its log (journalctl -u containerd), and run the program again")
	}
	exit := host.ExitOf(b.code)
	exit.Stderr = b.stderr.Last(ctx)
	return exit, nil
}

// Kill kills the task and removes it, the container and its snapshot.
func (b *instance) Kill(ctx context.Context) error {
	b.killing.Lock()
	defer b.killing.Unlock()
	ctx = b.driver.withNamespace(ctx)
	var errs []error
	if b.task == nil && b.container != nil { // the container may have a task anyway
		if task, err := b.container.Task(ctx, nil); err == nil {
			errs = append(errs, ignoreNotFound(b.watch(ctx, task)))
		}
	}
	if b.task != nil {
		if err := b.killTask(ctx); ignoreNotFound(err) != nil {
			errs = append(errs, err)
		} else {
			b.task = nil
		}
	}
	if b.io != nil {
		b.io.Cancel()
		b.io.Close()
	}
	if b.folder != "" {
		errs = append(errs, os.RemoveAll(b.folder))
	}
	if b.container != nil {
		if err := b.container.Delete(ctx, containerd.WithSnapshotCleanup); ignoreNotFound(err) != nil {
			errs = append(errs, err)
		} else {
			b.container = nil
		}
	}
	return errors.Join(errs...)
}

// killTask kills the task and removes it. The signal fails if the task ends by itself
// at the same time, and every runtime words that error differently, so killTask ignores
// the error once the task has ended.
func (b *instance) killTask(ctx context.Context) error {
	killed := b.task.Kill(ctx, syscall.SIGKILL)
	if b.ended != nil {
		select {
		case <-b.ended:
		case <-ctx.Done():
			return errors.Join(killed, context.Cause(ctx))
		}
	}
	if b.lost != nil { // it may live
		_, err := b.task.Delete(ctx, containerd.WithProcessKill)
		return err
	}
	_, err := b.task.Delete(ctx)
	return err
}

func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// Usage returns the zero value: the usage of a task that has ended is not known.
func (b *instance) Usage() sandbox.Usage { return sandbox.Usage{} }

func (b *instance) Isolation() string { return b.isolation }

func (b *instance) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
