package hosted_test

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// The test's own binary is the guest.
func TestMain(m *testing.M) {
	if os.Getenv(guest.WorkEnv) != "" || len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestTheHostRunsPrograms(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal("the host engine is tested with python3, which is not there")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine {
			return hosted.New(&host.Driver{Work: t.TempDir(), Owner: proc.Owner(), Environ: os.Environ()})
		},
		Languages: []string{"python"},
		Sandbox:   sandbox.Spec{Profile: sandbox.Dev, Guest: self},
	})
}

// slow is a driver whose start takes for ever.
type slow struct{ sandbox.Driver }

func (slow) Name() string { return "slow" }

func (slow) Probe(context.Context) sandbox.Probe {
	return sandbox.Probe{State: sandbox.Available}
}

func (slow) Start(ctx context.Context, _ sandbox.Spec) (sandbox.Sandbox, error) {
	<-ctx.Done()
	return nil, toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the daemon did not answer")
}

func TestAProgramWhoseTimeIsOverBeforeItsStartHasTimedOut(t *testing.T) {
	t.Parallel()
	j := engine.Job{Sandbox: sandbox.Spec{Guest: os.Args[0], BestEffort: true}}
	j.Program.Limits.Wall = 50
	if _, err := hosted.New(slow{}).Run(t.Context(), j, nil); toolroom.CodeOf(err) != toolroom.CodeTimeout {
		t.Errorf("it ended with %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := hosted.New(slow{}).Run(ctx, j, nil); toolroom.CodeOf(err) != toolroom.CodeCancelled {
		t.Errorf("it ended with %v", err)
	}
}

// late is a driver that is not there at first.
type late struct {
	sandbox.Driver
	answers []sandbox.State
}

func (d *late) Probe(context.Context) sandbox.Probe {
	p := sandbox.Probe{State: d.answers[0]}
	d.answers = d.answers[1:]
	return p
}

func TestADriverThatDidNotAnswerIsAskedAgainAfterAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := hosted.New(&late{answers: []sandbox.State{sandbox.Inconclusive, sandbox.Available}})
		for _, step := range []struct {
			pause time.Duration
			want  sandbox.State
		}{{0, sandbox.Inconclusive}, {time.Second, sandbox.Inconclusive}, {time.Minute, sandbox.Available}, {time.Hour, sandbox.Available}} {
			time.Sleep(step.pause)
			if p := e.Probe(t.Context()); p.State != step.want {
				t.Errorf("%s later it is %s, want %s", step.pause, p.State, step.want)
			}
		}
	})
}
