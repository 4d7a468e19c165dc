package guest

import (
	"context"
	"fmt"
	"os"

	"github.com/toolroom/toolroom/internal/engine/js/service"
)

// Main is a worker of the engine js, or says that guests run on Unix. It returns
// the exit code.
func Main(args []string) int {
	if len(args) > 0 && args[0] == MainArg {
		args = args[1:]
	}
	if len(args) > 0 && args[0] == service.WorkerArg {
		return service.Main(context.Background(), args[1:])
	}
	fmt.Fprintln(os.Stderr, "toolroom-guest runs on Unix: on Windows, programs run in containers, or on an engine of their own")
	return 2
}
