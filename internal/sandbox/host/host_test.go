package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// The test's own binary is the guest.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func TestTheHostHoldsWhatItSays(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(t *testing.T) sandbox.Driver {
			return &host.Driver{Work: work, Owner: proc.Owner(), Environ: os.Environ()}
		},
		Guest: self, GuestArgs: []string{guest.MainArg}, Languages: []string{"python", "shell"},
		Leftovers: func(t *testing.T) []string {
			left, err := filepath.Glob(filepath.Join(work, "*"))
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
		// It is no sandbox: it has this machine's network, user and files.
		Without: []string{"network", "root", "environment", "files of another run", "a process that double-forks ends with its run"},
	})
}
