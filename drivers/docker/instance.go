package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// instance is one container.
type instance struct {
	engine    *engine
	id        string
	isolation string
	held      map[sandbox.Limit]string

	conn   net.Conn
	out    *io.PipeReader
	stderr *proc.Follower
}

// attach connects to the guest's streams. It must be called before the guest starts,
// so that nothing is lost.
func (b *instance) attach(ctx context.Context) error {
	attached, err := b.engine.ContainerAttach(ctx, b.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	b.conn = attached.Conn
	read, write := io.Pipe()
	b.out = read
	b.stderr = proc.Follow(func(to io.Writer) {
		// The engine sends stdout and stderr on one connection.
		_, err := stdcopy.StdCopy(write, to, attached.Reader)
		write.CloseWithError(err) // nil is the end of the stream
	})
	return nil
}

func (b *instance) Stream() io.ReadWriteCloser { return stream{b} }

type stream struct{ b *instance }

func (s stream) Read(p []byte) (int, error)  { return s.b.out.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.b.conn.Write(p) }

func (s stream) Close() error {
	s.b.close()
	return nil
}

// close closes the connection and ends its readers.
func (b *instance) close() {
	if b.conn != nil {
		b.conn.Close()
		b.out.Close()
	}
}

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	wait := b.engine.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	exit := sandbox.Exit{}
	select {
	case r := <-wait.Result:
		exit = host.ExitOf(int(r.StatusCode))
	case err := <-wait.Error:
		return exit, err
	}
	exit.Stderr = b.stderr.Last(ctx)
	inspected, err := b.engine.ContainerInspect(ctx, b.id, client.ContainerInspectOptions{})
	if err == nil && inspected.Container.State != nil {
		exit.OOM = inspected.Container.State.OOMKilled
	}
	return exit, nil
}

// Kill removes the container, which kills all processes in it.
func (b *instance) Kill(ctx context.Context) error {
	b.close()
	err := b.remove(ctx)
	for b.engine.info.podman && err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "container state improper") {
		// Podman fails if the container ends at this moment.
		select {
		case <-time.After(podmanRetryPause):
		case <-ctx.Done():
		}
		err = b.remove(ctx)
	}
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	if cerrdefs.IsConflict(err) { // another client is removing it; wait until it is gone
		wait := b.engine.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		select {
		case <-wait.Result:
			return nil
		case werr := <-wait.Error:
			if cerrdefs.IsNotFound(werr) {
				return nil
			}
			err = errors.Join(err, werr)
		}
	}
	return err
}

// podmanRetryPause is the pause between attempts to remove an ending container.
const podmanRetryPause = 50 * time.Millisecond

func (b *instance) remove(ctx context.Context) error {
	_, err := b.engine.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// Usage returns the zero value: the usage of a container that has ended is not known.
func (b *instance) Usage() sandbox.Usage { return sandbox.Usage{} }

func (b *instance) Isolation() string { return b.isolation }

func (b *instance) Held() map[sandbox.Limit]string { return b.held }
