package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// checkpoint is the saved state of a sandbox whose guest had prepared an interpreter
// and had not received a program.
type checkpoint struct {
	kind   string    // of sandboxes that can be restored from it
	making turn.Turn // guards what follows
	folder string    // empty until the checkpoint is made
	failed error     // the error that prevented it
}

// A checkpoint takes about 10 MB of disk. Limits are part of its kind, and programs
// choose them, so the number of checkpoints must be bounded.
const (
	maxCheckpoints = 8
	maxRequested   = 64 // number of remembered kinds
)

// checkpointOf returns a checkpoint from which a sandbox for s can be restored, or nil.
// It makes the checkpoint when a kind is requested for the second time, because many
// kinds are never requested again.
func (d *Driver) checkpointOf(ctx context.Context, s sandbox.Spec) *checkpoint {
	// runsc cannot checkpoint a sandbox with the host network or a listening socket,
	// and a rootless runsc cannot restore. Folders have changed when it is restored.
	if !d.o.Restore || s.Profile == sandbox.Dev || len(s.Egress) > 0 || len(s.Folders) > 0 || os.Geteuid() != 0 {
		return nil
	}
	c := d.checkpointOnRepeat(s)
	if c == nil {
		return nil
	}
	end, err := c.making.Take(ctx)
	if err != nil {
		return nil
	}
	defer end()
	if c.folder == "" && c.failed == nil {
		if err := d.makeCheckpoint(ctx, c, s); err != nil && ctx.Err() == nil {
			c.failed = err
		}
	}
	if c.folder == "" {
		return nil
	}
	return c
}

// checkpointOnRepeat returns the checkpoint for s, which may not be made yet. It returns nil
// for the first request of a kind, and if there are too many checkpoints.
func (d *Driver) checkpointOnRepeat(s sandbox.Spec) *checkpoint {
	s.Run, s.Limits.Wall = "", 0
	binary, err := os.Stat(s.Guest) // a restored sandbox opens the file again
	if err != nil {
		return nil
	}
	kind := fmt.Sprintf("%#v %s %d", s, binary.ModTime(), binary.Size())
	d.checkpointsMu.Lock()
	defer d.checkpointsMu.Unlock()
	if c := d.checkpoints[kind]; c != nil || len(d.checkpoints) >= maxCheckpoints {
		return c
	}
	if !d.requested[kind] {
		if d.requested == nil || len(d.requested) >= maxRequested {
			d.requested = map[string]bool{}
		}
		d.requested[kind] = true
		return nil
	}
	if d.checkpoints == nil {
		d.checkpoints = map[string]*checkpoint{}
	}
	d.checkpoints[kind] = &checkpoint{kind: kind, making: turn.New()}
	return d.checkpoints[kind]
}

// withCheckpointWait returns s with the variable that makes the guest wait for its checkpoint. A sandbox must be
// restored with the spec that it was saved with.
func withCheckpointWait(s sandbox.Spec) sandbox.Spec {
	s.Env = append(slices.Clone(s.Env), guest.HoldEnv+"=1")
	return s
}

// makeCheckpoint starts a sandbox, waits until it is prepared, and saves it.
func (d *Driver) makeCheckpoint(ctx context.Context, c *checkpoint, s sandbox.Spec) error {
	b, err := d.start(withCheckpointWait(s), nil)
	if err != nil {
		return err
	}
	ending := context.WithoutCancel(ctx)
	defer func() { _ = b.Kill(ending) }() // Clean finds by its name what is not removed here
	defer context.AfterFunc(ctx, func() { _ = b.Kill(ending) })()
	greeting := make([]byte, len(guest.Held))
	if _, err := io.ReadFull(b.Stream(), greeting); err != nil || string(greeting) != guest.Held {
		return fmt.Errorf("the guest sent %q: %w", greeting, err)
	}
	folder := filepath.Join(d.o.Work, folderPrefix+proc.Owner()+"-"+strings.ToLower(rand.Text()))
	if err := os.Mkdir(folder, 0o700); err != nil {
		return err
	}
	save := exec.CommandContext(ctx, d.program, append(b.flags(), "checkpoint", "--image-path", folder, b.id)...)
	if out, err := save.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("runsc checkpoint: %w: %s", err, out), os.RemoveAll(folder))
	}
	c.folder = folder
	return nil
}

// drop removes a checkpoint that is not used any more.
func (d *Driver) drop(ctx context.Context, c *checkpoint) error {
	d.checkpointsMu.Lock()
	if d.checkpoints[c.kind] == c {
		delete(d.checkpoints, c.kind)
	}
	d.checkpointsMu.Unlock()
	end, err := c.making.Take(ctx)
	if err != nil {
		return err
	}
	defer end()
	if c.folder == "" {
		return nil
	}
	return os.RemoveAll(c.folder)
}

// Close removes the checkpoints. The driver stays usable, and makes new ones.
func (d *Driver) Close() error {
	d.checkpointsMu.Lock()
	all := slices.Collect(maps.Values(d.checkpoints))
	d.checkpointsMu.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, d.drop(context.Background(), c))
	}
	return errors.Join(errs...)
}

// restoredStream is the stream of a restored sandbox. It records whether the guest has
// sent anything.
type restoredStream struct {
	io.ReadWriteCloser
	gotOutput atomic.Bool
}

func (b *restoredStream) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	if n > 0 {
		b.gotOutput.Store(true)
	}
	return n, err
}

// notifyRestored tells the guest that it has been restored.
func (b *instance) notifyRestored(from *checkpoint) {
	b.from, b.restored = from, &restoredStream{ReadWriteCloser: b.Child.Stream()}
	_, _ = b.restored.Write([]byte{'\n'}) // if the guest is gone, its missing hello reports it
}

// Stream returns the guest's stdout and stdin.
func (b *instance) Stream() io.ReadWriteCloser {
	if b.restored != nil {
		return b.restored
	}
	return b.Child.Stream()
}
