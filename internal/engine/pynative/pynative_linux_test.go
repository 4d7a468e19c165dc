package pynative_test

import (
	"os"
	"testing"

	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/enginetest"
	"github.com/toolroom/toolroom/internal/engine/pynative"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// The test's own binary is the init of sandboxes.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == lockdown.InitArg {
		os.Exit(lockdown.Main())
	}
	os.Exit(m.Run())
}

func TestTheContract(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, enginetest.Options{New: func(*testing.T) engine.Engine { return pynative.New(pynative.Options{}) }})
}
