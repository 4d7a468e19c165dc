// Package image makes the default image of sandboxes without a registry: Debian
// packages, unpacked, with the guest. The same packages and the same guest give
// the same bytes. The archive is an OCI image layout that also has the manifest
// of `docker save`, so that docker load, ctr images import and skopeo take it.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
)

// Name of the default image in engines.
const Name = "localhost/toolroom:latest"

// GuestPath is where the image has the guest's binary.
const GuestPath = "/usr/local/bin/toolroom-guest"

// Options of a build.
type Options struct {
	// Guest is the path of the static guest binary. Required.
	Guest string
	// Suite of Debian; bookworm if empty.
	Suite string
	// Packages beside those of the default image.
	Packages []string
	// WithoutNode leaves node out: the image is less than half as large, and runs
	// no JavaScript.
	WithoutNode bool
	// Mirror that Debian is read from; empty asks the apt of this machine.
	Mirror string
	// Time is that of every file; 2023-11-14T22:13:20Z if zero.
	Time time.Time
	// Log is told what mmdebstrap says; nil discards it.
	Log io.Writer
}

// packages of the default image: what runs Python and shell scripts. With node,
// which JavaScript needs, the image is 161 MB and not 66 (64 and not 28 where it
// is compressed); it is in all the same, because a program that is refused for
// its language costs an agent more than the disk.
var packages = []string{"base-files", "busybox-static", "dash", "libc-bin", "python3"}

// included are the packages of this image, and languages what they run.
func (o Options) included() []string {
	list := slices.Clone(packages)
	if !o.WithoutNode {
		list = append(list, "nodejs")
	}
	return append(list, o.Packages...)
}

func (o Options) languages() string {
	if o.WithoutNode {
		return "python,shell"
	}
	return "python,javascript,shell"
}

// hooks run in the unpacked tree. A root that is read-only could keep no
// compiled Python, and would compile it anew in every run.
var hooks = []string{
	`PYTHONHASHSEED=0 chroot "$1" python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.*/`,
	`chroot "$1" /bin/busybox --install -s /bin`,
	`rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/locale "$1"/var/cache "$1"/var/lib/apt "$1"/var/log "$1"/boot`,
}

var defaultTime = time.Unix(1_700_000_000, 0).UTC()

// Tree is the unpacked packages, of which any number of images and roots are
// made.
type Tree struct {
	file string // a tar
	o    Options
}

// Write writes the image to w, as an archive that engines load.
func (t *Tree) Write(w io.Writer) error {
	layer, err := os.CreateTemp(filepath.Dir(t.file), "layer-*.tar")
	if err != nil {
		return err
	}
	defer layer.Close()
	if err := writeLayer(layer, t.file, t.o); err != nil {
		return err
	}
	return writeArchive(w, layer, t.o)
}

// Unpack writes the root file system of the image into folder, which must be
// empty or not there yet: for gVisor without a daemon, and for microVMs. Files
// belong to this user, or to root where root does it.
func (t *Tree) Unpack(folder string) error { return unpackLayer(t.file, folder, t.o) }

// Build has mmdebstrap unpack the packages, and gives them to use, after which
// they are removed. An error of its own is a [*toolroom.Error] that says what is
// missing.
func Build(ctx context.Context, o Options, use func(*Tree) error) error {
	o = o.withDefaults()
	program, err := findProgram()
	if err != nil {
		return err
	}
	if _, err := os.Stat(o.Guest); err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the guest for the image is missing: %w", err).
			WithHint("build it with `make build`, which puts toolroom-guest beside toolroom")
	}
	work, err := mark.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// mmdebstrap makes a user namespace where it is not root, and must get in.
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	tree := filepath.Join(work, "tree.tar")
	args := []string{
		"--variant=extract", "--format=tar", "--quiet",
		"--include=" + strings.Join(o.included(), ","),
	}
	for _, hook := range hooks {
		args = append(args, "--extract-hook="+hook)
	}
	args = append(args, o.Suite, tree)
	if o.Mirror != "" {
		args = append(args, o.Mirror)
	}
	var said strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.Time.Unix()))
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(&said, o.Log)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it removes what it has made
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return toolroom.Errorf(toolroom.CodeCancelled, "the build of the image was stopped: %w", ctx.Err())
		}
		return toolroom.Errorf(toolroom.CodeExecutionFailed, "mmdebstrap: %w: %s", err, lastLines(said.String())).
			WithHint("it needs a Debian mirror (--mirror), space in %s, and to be root or to have user namespaces", os.TempDir())
	}
	return use(&Tree{tree, o})
}

func (o Options) withDefaults() Options {
	if o.Suite == "" {
		o.Suite = "bookworm"
	}
	if o.Time.IsZero() {
		o.Time = defaultTime
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o
}

func findProgram() (string, error) {
	if runtime.GOOS != "linux" {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "images are built on Linux, and this is %s", runtime.GOOS).
			WithHint("build it on Linux with `toolroom image build --output image.tar`, and load the file here")
	}
	program, err := exec.LookPath("mmdebstrap")
	if errors.Is(err, exec.ErrNotFound) {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "mmdebstrap, which unpacks Debian packages, is not installed").
			WithHint("apt-get install mmdebstrap")
	}
	return program, err
}

// lastLines is the end of what a program said, on one line.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
