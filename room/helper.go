package room

import (
	"context"

	"github.com/toolroom/toolroom/internal/engine/module"
	"github.com/toolroom/toolroom/internal/engine/py"
	"github.com/toolroom/toolroom/internal/fence"
	"github.com/toolroom/toolroom/internal/guest"
)

// RunHelper makes this program the helper that a room has started it as: a
// worker that runs JavaScript, Python or WebAssembly, the guest inside a sandbox, or
// what starts a program without the machine's network. A program that names itself in [Options.Helper] calls it first in main, and exits with code
// when it was a helper.
//
//	if code, ok := room.RunHelper(os.Args[1:]); ok {
//		os.Exit(code)
//	}
func RunHelper(args []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case guest.MainArg:
		return guest.Main(args[1:]), true
	case fence.Arg:
		return fence.Main(args[1:]), true
	case module.WorkerArg:
		return module.Worker(context.Background(), args[1:]), true
	case py.WorkerArg:
		return py.Worker(context.Background(), args[1:]), true
	}
	return 0, false
}
