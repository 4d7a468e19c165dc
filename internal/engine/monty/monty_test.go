package monty_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/monty"
	"github.com/toolroom/toolroom/internal/lockdown"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	os.Exit(m.Run())
}

// open makes an engine of the worker that is installed here.
func open(t testing.TB) *monty.Engine {
	t.Helper()
	path := os.Getenv("TOOLROOM_MONTY")
	if path == "" {
		path, _ = exec.LookPath("monty")
	}
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no monty: toolroom setup engines installs it, and TOOLROOM_MONTY tells these tests where")
		}
		t.Skip("there is no monty: toolroom setup engines installs it, and TOOLROOM_MONTY tells these tests where")
	}
	return monty.New(monty.Options{Find: func() (string, error) { return path, nil }})
}

func TestTheEngineKeepsTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{
		New: func(t *testing.T) engine.Engine { return open(t) },
		// Both need what Monty has not: object, and the modules builtins and sys
		// as things to write to. What they check is checked below.
		Without: []string{"a value that cannot leave says which part", "runs see nothing of each other"},
	})
}

func TestAWorkerThatIsNotInstalledIsNotAvailable(t *testing.T) {
	t.Parallel()
	e := monty.New(monty.Options{Find: func() (string, error) { return "", os.ErrNotExist }})
	t.Cleanup(func() { _ = e.Close() })
	if p := e.Probe(t.Context()); p.State == "available" || p.Fix != "toolroom setup engines" {
		t.Errorf("%+v", p)
	}
	if _, err := e.Run(t.Context(), engine.Job{}, nil); err != nil && errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
