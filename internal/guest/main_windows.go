package guest

import (
	"context"
	"fmt"
	"os"

	"github.com/toolroom/toolroom/internal/engine/quickjs"
)

// Main runs a worker of the engine js; guests themselves need Unix. It returns the
// exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == MainArg {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == quickjs.WorkerArg {
		return quickjs.Main(context.Background(), args[1:])
	}
	fmt.Fprintln(os.Stderr, "toolroom-guest needs Unix: on Windows, programs run in containers or on a built-in engine")
	return 2
}
