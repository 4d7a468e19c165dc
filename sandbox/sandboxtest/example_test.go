package sandboxtest_test

import (
	"testing"

	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// A driver is accepted if it passes the suite. The folder examples/driver has a whole one that
// is run, with the guest that it needs.
func ExampleRun() {
	var (
		mine  sandbox.Driver
		guest string // the path of the built package sandboxtest/escape/guest
	)
	test := func(t *testing.T) { // func TestMine
		sandboxtest.Run(t, sandboxtest.Options{
			New:       func(*testing.T) sandbox.Driver { return mine },
			Guest:     guest,
			Languages: []string{"python", "shell"},
			Lacks:     []sandbox.Limit{sandbox.LimitDisk},
		})
	}
	_ = test
}
