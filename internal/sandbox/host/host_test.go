package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
	"github.com/toolroom/toolroom/sandbox/sandboxtest/rogue"
)

// TestMain runs this binary as the guest, if asked to.
func TestMain(m *testing.M) {
	if code, ok := rogue.Main(os.Args[1:], guest.MainArg); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == guest.MainArg {
		os.Exit(guest.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// options returns the options of the test suites, with all folders in one.
func options(t *testing.T) sandboxtest.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A path that is longer than the path of a socket may be.
	work := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	return sandboxtest.Options{
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
		Lacks: []sandbox.Limit{sandbox.LimitPIDs, sandbox.LimitDisk, sandbox.LimitNetwork, sandbox.LimitEgress},
		// The driver is no sandbox: programs have this machine's network, user and files.
		Without: []string{"network", "root", "environment", "files of another run", "a process that double-forks ends with its run"},
	}
}

func TestTheHostDriverPassesTheSuite(t *testing.T) {
	t.Parallel()
	o := options(t)
	sandboxtest.Documented(t, "../../../docs/runtimes.md", "host", o.New(t).Probe(t.Context()))
	sandboxtest.Run(t, o)
}

func TestAGuestThatBreaksTheRulesEndsItsOwnRunOnly(t *testing.T) {
	t.Parallel()
	sandboxtest.Rogue(t, options(t))
}
