package app

import (
	"context"

	"github.com/toolroom/toolroom/internal/engine/module"
	"github.com/toolroom/toolroom/internal/engine/py"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
)

// RunHelper runs this program as a helper process, if a room has started it as one: as a
// worker that runs JavaScript, Python or WebAssembly, as the guest inside a sandbox, or to
// start a program in a network jail. A program whose path is [Options.Helper] calls
// RunHelper first in main, and exits with code if ok is true.
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
	case lockdown.JailArg:
		return lockdown.JailMain(args[1:]), true
	case module.WorkerArg:
		return module.Worker(context.Background(), args[1:]), true
	case py.WorkerArg:
		return py.Worker(context.Background(), args[1:]), true
	}
	return 0, false
}
