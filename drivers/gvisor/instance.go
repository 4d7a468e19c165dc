package gvisor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sync"

	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// instance is one gVisor sandbox; its child process is runsc.
type instance struct {
	*host.Child
	driver    *Driver
	id        string
	folder    string // the bundle, and the state of runsc
	network   string
	isolation string
	held      map[sandbox.Limit]string
	from      *checkpoint     // the checkpoint that it was restored from, or nil
	restored  *restoredStream // its stream, if it was restored

	killing sync.Mutex
}

// Kill ends the sandbox, and removes its cgroups and its bundle.
func (b *instance) Kill(ctx context.Context) error {
	b.killing.Lock()
	defer b.killing.Unlock()
	if b.folder == "" {
		return nil
	}
	// The sandbox's processes end with the runsc that is attached to them. Removing
	// their cgroups succeeds only once they have ended. Without cgroups, runsc delete
	// waits for that, which takes seconds.
	b.Stop(0)
	if !b.driver.cgroups {
		remove := exec.CommandContext(ctx, b.driver.program, append(b.flags(), "delete", "--force", b.id)...)
		if out, err := remove.CombinedOutput(); err != nil {
			return fmt.Errorf("runsc delete: %w: %s", err, out)
		}
	}
	if b.from != nil && !b.restored.gotOutput.Load() { // the checkpoint may be unusable
		if err := b.driver.drop(ctx, b.from); err != nil {
			return err
		}
	}
	if err := removeCgroups(ctx, b.id); err != nil {
		return fmt.Errorf("remove the cgroups: %w", err)
	}
	if err := os.RemoveAll(b.folder); err != nil {
		return err
	}
	b.folder = ""
	return nil
}

func (b *instance) Isolation() string { return b.isolation }

func (b *instance) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
