package guest

import (
	"fmt"
	"os"
)

// Main says that guests run on Unix. It returns the exit code.
func Main([]string) int {
	fmt.Fprintln(os.Stderr, "toolroom-guest runs on Unix: on Windows, programs run in containers, or on an engine of their own")
	return 2
}
