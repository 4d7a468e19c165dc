package sandbox_test

import (
	"fmt"

	"github.com/toolroom/toolroom/sandbox"
)

// A limit that a driver does not enforce is refused before the run, never ignored.
func ExampleCheck() {
	p := sandbox.Probe{
		State: sandbox.Available,
		Holds: map[sandbox.Limit]string{sandbox.LimitWall: "SIGKILL"},
		Lacks: map[sandbox.Limit]string{sandbox.LimitPIDs: "all processes of the user count"},
	}
	fmt.Println(sandbox.Check("mine", p, sandbox.Spec{Limits: sandbox.Limits{PIDs: 10}}))
	// Output: the mine sandbox cannot enforce these limits here: pids (all processes of the user count), network (not supported)
}
