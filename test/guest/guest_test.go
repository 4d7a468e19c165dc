package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

func TestAGuestWrittenFromThePagePassesTheSuite(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	enginetest.Run(t, enginetest.Options{
		New:       func(*testing.T) engine.Engine { return hosted.New(&driver{python: python}) },
		Languages: []string{"python"},
		Sandbox:   sandbox.Spec{Guest: python, Profile: sandbox.Dev}, // the driver isolates nothing
		// The page leaves it to guests to check arguments and awaits before the run.
		Without: []string{
			"a wrong argument is refused before the run",
			"a missing argument is refused before the run",
			"wrong arguments of a call by id are found before the run",
			"a text that an argument cannot be is found before the run",
			"a forgotten await is refused before the run",
			"an answer that a name holds without await is refused before the run",
			"an answer that is never awaited",
		},
	})
}

// driver starts the guest as a process that connects to the server by a socket.
type driver struct{ python string }

func (d *driver) Name() string { return "page" }

func (d *driver) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available, Isolation: "none", Languages: []string{"python"}}
}

func (d *driver) Start(ctx context.Context, _ sandbox.Spec) (_ sandbox.Sandbox, err error) {
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir, ended: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the guest did not start: %w", err), p.Kill(context.WithoutCancel(ctx)))
		}
	}()
	path := filepath.Join(dir, "host")
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	command := exec.Command(d.python, "guest.py", path)
	command.Stderr = &p.stderr
	if err := command.Start(); err != nil {
		return nil, err
	}
	p.command = command
	go func() {
		_ = command.Wait() // Wait reports the state
		listener.Close()   // no connection will come any more
		close(p.ended)
	}()
	p.conn, err = listener.Accept()
	return p, err
}

// process is a running guest.
type process struct {
	dir     string
	conn    net.Conn
	command *exec.Cmd
	ended   chan struct{}
	stderr  bytes.Buffer
	once    sync.Once
}

func (p *process) Stream() io.ReadWriteCloser { return p.conn }

func (p *process) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-p.ended:
		return sandbox.Exit{Code: p.command.ProcessState.ExitCode(), Stderr: p.stderr.String()}, nil
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
}

func (p *process) Kill(context.Context) (err error) {
	p.once.Do(func() {
		if p.command != nil {
			_ = p.command.Process.Kill() // it may have ended already
			<-p.ended
		}
		if p.conn != nil {
			p.conn.Close()
		}
		err = os.RemoveAll(p.dir)
	})
	return err
}

func (p *process) Usage() sandbox.Usage { return sandbox.Usage{} }

func (p *process) Isolation() string { return "none" }

func (p *process) Held() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{sandbox.LimitWall: "kill"}
}
