package bridge

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// Descriptor is the file descriptor at which a WebAssembly module has the bridge.
const Descriptor = 3

// Open gives a WebAssembly module the run that it is in, by which it calls
// tools. It is called once; a module that does not call it has no part in the
// bridge, and ends with its exit code alone.
func Open(ctx context.Context) (*Job, error) {
	// Where a read waits, no other goroutine of a module goes on.
	if err := syscall.SetNonblock(Descriptor, true); err != nil {
		return nil, fmt.Errorf("open the bridge at descriptor %d: is this module run by Toolroom? %w", Descriptor, err)
	}
	g, err := Join(os.NewFile(Descriptor, "bridge"), GuestOptions{Name: "go"})
	if err != nil {
		return nil, err
	}
	return g.Next(ctx)
}
