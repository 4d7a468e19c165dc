package hosted_test

import (
	"os"
	"os/exec"
	"testing"

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
