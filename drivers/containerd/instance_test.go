//go:build linux

package containerd

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	containerd "github.com/containerd/containerd/v2/client"

	"github.com/toolroom/toolroom"
)

// lostTask is a task whose daemon goes away while it runs.
type lostTask struct {
	containerd.Task
	why     error
	options int // of the deletion
}

func (l *lostTask) Wait(context.Context) (<-chan containerd.ExitStatus, error) {
	c := make(chan containerd.ExitStatus, 1)
	c <- *containerd.NewExitStatus(containerd.UnknownExitStatus, time.Time{}, l.why)
	return c, nil
}

func (l *lostTask) Kill(context.Context, syscall.Signal, ...containerd.KillOpts) error { return l.why }

func (l *lostTask) Delete(_ context.Context, o ...containerd.ProcessDeleteOpts) (*containerd.ExitStatus, error) {
	l.options = len(o)
	return nil, nil
}

// The code of a status without an answer is 255, which looks like the end of a program.
func TestALostDaemonIsNoExitCodeOfTheProgram(t *testing.T) {
	t.Parallel()
	gone := errors.New("the connection is gone")
	b := &instance{driver: New(Options{})}
	task := &lostTask{why: gone}
	if err := b.watch(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	exit, err := b.Wait(t.Context())
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !errors.Is(err, gone) || exit.Code != 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := b.Kill(t.Context()); err != nil || task.options != 1 {
		t.Errorf("the task, which may live, is deleted with %d options: %v", task.options, err)
	}
}
