package gvisor

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sync"

	"github.com/toolroom/toolroom/internal/sandbox/child"
	"github.com/toolroom/toolroom/sandbox"
)

// box is one sandbox of gVisor, whose child is runsc.
type box struct {
	*child.Child
	driver    *Driver
	id        string
	folder    string // the bundle, and the state of runsc
	network   string
	isolation string
	held      map[sandbox.Limit]string
	from      *checkpoint // that it began from, or nil
	began     *beginning

	killing sync.Mutex
}

// Kill ends the sandbox, and removes its cgroups and its bundle.
func (b *box) Kill(ctx context.Context) error {
	b.killing.Lock()
	defer b.killing.Unlock()
	if b.folder == "" {
		return nil
	}
	// With runsc end the processes that it is attached to. That they have, its
	// cgroups tell by letting themselves be removed; without any it is asked, which
	// takes seconds.
	b.Stop(0)
	if !b.driver.cgroups {
		remove := exec.CommandContext(ctx, b.driver.program, append(b.flags(), "delete", "--force", b.id)...)
		if out, err := remove.CombinedOutput(); err != nil {
			return fmt.Errorf("runsc delete: %w: %s", err, out)
		}
	}
	if b.from != nil && !b.began.spoke.Load() { // it may be of no use any more
		if err := b.driver.drop(b.from); err != nil {
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

func (b *box) Isolation() string { return b.isolation }

func (b *box) Held() map[sandbox.Limit]string { return maps.Clone(b.held) }
