package bridge

import (
	"context"
	"fmt"
	"os"
	"syscall"
)

// Descriptor is the file descriptor of the bridge in a WebAssembly module.
const Descriptor = 3

// Open returns the current run of a WebAssembly module, with which the module
// calls tools. Call it once. A module that does not call it takes no part in the
// bridge, and only its exit code counts.
func Open(ctx context.Context) (*Job, error) {
	// A blocking read would block all goroutines of the module.
	if err := syscall.SetNonblock(Descriptor, true); err != nil {
		return nil, fmt.Errorf("open the bridge at descriptor %d: is this module run by Toolroom? %w", Descriptor, err)
	}
	g, err := Join(os.NewFile(Descriptor, "bridge"), GuestOptions{Name: "go"})
	if err != nil {
		return nil, err
	}
	return g.Next(ctx)
}
