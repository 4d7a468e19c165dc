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
	"github.com/toolroom/toolroom/internal/sandbox/child"
	"github.com/toolroom/toolroom/sandbox"
)

// box is one container.
type box struct {
	engine    *engine
	id        string
	isolation string
	held      map[sandbox.Limit]string

	conn   net.Conn
	out    *io.PipeReader
	stderr *proc.Follower
}

// attach connects to the guest's streams, before it starts, so that nothing of
// them is lost.
func (b *box) attach(ctx context.Context) error {
	attached, err := b.engine.ContainerAttach(ctx, b.id, client.ContainerAttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	if err != nil {
		return err
	}
	b.conn = attached.Conn
	read, write := io.Pipe()
	b.out = read
	b.stderr = proc.Follow(func(to io.Writer) {
		// The engine sends both outputs on the one connection.
		_, err := stdcopy.StdCopy(write, to, attached.Reader)
		write.CloseWithError(err) // nil is the end of the stream
	})
	return nil
}

func (b *box) Stream() io.ReadWriteCloser { return stream{b} }

type stream struct{ b *box }

func (s stream) Read(p []byte) (int, error)  { return s.b.out.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.b.conn.Write(p) }

func (s stream) Close() error {
	s.b.close()
	return nil
}

// close ends the connection, and what reads from it.
func (b *box) close() {
	if b.conn != nil {
		b.conn.Close()
		b.out.Close()
	}
}

func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
	wait := b.engine.ContainerWait(ctx, b.id, client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	exit := sandbox.Exit{}
	select {
	case r := <-wait.Result:
		exit = child.Exit(int(r.StatusCode))
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

// Kill removes the container, which ends all that runs in it.
func (b *box) Kill(ctx context.Context) error {
	b.close()
	err := b.remove(ctx)
	for b.engine.facts.podman && err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "container state improper") {
		// It finds a container that ends at this moment, and stumbles.
		select {
		case <-time.After(podmanAgain):
		case <-ctx.Done():
		}
		err = b.remove(ctx)
	}
	if err == nil || cerrdefs.IsNotFound(err) {
		return nil
	}
	if cerrdefs.IsConflict(err) { // somebody else is removing it: until then it is there
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

// podmanAgain is the pause between attempts to remove what is ending.
const podmanAgain = 50 * time.Millisecond

func (b *box) remove(ctx context.Context) error {
	_, err := b.engine.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	return err
}

// Usage is not known: a container that has ended has none any more.
func (b *box) Usage() sandbox.Usage { return sandbox.Usage{} }

func (b *box) Isolation() string { return b.isolation }

func (b *box) Held() map[sandbox.Limit]string { return b.held }
