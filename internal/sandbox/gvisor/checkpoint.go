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
	"sync"
	"sync/atomic"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// checkpoint is a sandbox of one kind as it was when its guest had prepared what
// programs need and had seen no program.
type checkpoint struct {
	kind   string
	making sync.Mutex
	folder string // empty until it is made
	failed error  // why it cannot be made
}

// A checkpoint takes some 10 MB of disk, and a kind has its limits in it, which
// are for programs to choose.
const (
	maxCheckpoints = 8
	maxAsked       = 64 // kinds that are remembered
)

// checkpointOf is the one that a sandbox for s may begin from, or nil. What is
// asked for once may not be asked for again, so it is made at the second time.
func (d *Driver) checkpointOf(ctx context.Context, s sandbox.Spec) *checkpoint {
	// With the host's network, or a socket that listens, it cannot be kept, and
	// rootless runsc restores nothing.
	if !d.o.Restore || s.Profile == sandbox.Dev || len(s.Egress) > 0 || os.Geteuid() != 0 {
		return nil
	}
	c := d.askedAgain(s)
	if c == nil {
		return nil
	}
	c.making.Lock()
	defer c.making.Unlock()
	if c.folder == "" && c.failed == nil {
		if err := d.keep(ctx, c, s); err != nil && ctx.Err() == nil {
			c.failed = err
		}
	}
	if c.folder == "" {
		return nil
	}
	return c
}

// askedAgain is the checkpoint for s, made or not; nil at the first time, and
// where there are enough.
func (d *Driver) askedAgain(s sandbox.Spec) *checkpoint {
	s.Run, s.Limits.Wall = "", 0
	binary, err := os.Stat(s.Guest) // which a restored sandbox opens again
	if err != nil {
		return nil
	}
	kind := fmt.Sprintf("%#v %s %d", s, binary.ModTime(), binary.Size())
	d.keeping.Lock()
	defer d.keeping.Unlock()
	if c := d.kept[kind]; c != nil || len(d.kept) >= maxCheckpoints {
		return c
	}
	if !d.asked[kind] {
		if d.asked == nil || len(d.asked) >= maxAsked {
			d.asked = map[string]bool{}
		}
		d.asked[kind] = true
		return nil
	}
	if d.kept == nil {
		d.kept = map[string]*checkpoint{}
	}
	d.kept[kind] = &checkpoint{kind: kind}
	return d.kept[kind]
}

// held is s for a guest that waits to be kept. A sandbox and what is restored
// from it must have the same spec.
func held(s sandbox.Spec) sandbox.Spec {
	s.Env = append(slices.Clone(s.Env), guest.HoldEnv+"=1")
	return s
}

// keep starts a sandbox, has it prepare itself, and makes its checkpoint.
func (d *Driver) keep(ctx context.Context, c *checkpoint, s sandbox.Spec) error {
	b, err := d.start(held(s), nil)
	if err != nil {
		return err
	}
	ending := context.WithoutCancel(ctx)
	defer func() { _ = b.Kill(ending) }() // what stays is found by its mark
	defer context.AfterFunc(ctx, func() { _ = b.Kill(ending) })()
	said := make([]byte, len(guest.Held))
	if _, err := io.ReadFull(b.Stream(), said); err != nil || string(said) != guest.Held {
		return fmt.Errorf("the guest said %q: %w", said, err)
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

// drop removes a checkpoint that nothing begins from.
func (d *Driver) drop(c *checkpoint) error {
	d.keeping.Lock()
	if d.kept[c.kind] == c {
		delete(d.kept, c.kind)
	}
	d.keeping.Unlock()
	c.making.Lock()
	defer c.making.Unlock()
	if c.folder == "" {
		return nil
	}
	return os.RemoveAll(c.folder)
}

// Close removes the checkpoints. The driver can be used on, and makes new ones.
func (d *Driver) Close() error {
	d.keeping.Lock()
	all := slices.Collect(maps.Values(d.kept))
	d.keeping.Unlock()
	var errs []error
	for _, c := range all {
		errs = append(errs, d.drop(c))
	}
	return errors.Join(errs...)
}

// beginning is the stream of a sandbox that began from a checkpoint, and notes
// whether a word of its guest has come.
type beginning struct {
	io.ReadWriteCloser
	spoke atomic.Bool
}

func (b *beginning) Read(p []byte) (int, error) {
	n, err := b.ReadWriteCloser.Read(p)
	if n > 0 {
		b.spoke.Store(true)
	}
	return n, err
}

// goOn tells the guest that it is restored.
func (b *box) goOn(from *checkpoint) {
	b.from, b.began = from, &beginning{ReadWriteCloser: b.Child.Stream()}
	_, _ = b.began.Write([]byte{'\n'}) // who is not there to hear it says no hello either
}

// Stream is the guest's stdout and stdin.
func (b *box) Stream() io.ReadWriteCloser {
	if b.began != nil {
		return b.began
	}
	return b.Child.Stream()
}
