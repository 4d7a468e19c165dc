// Package image makes the default image of sandboxes without a registry: unpacked Debian
// packages and the guest. Builds from the same packages and the same guest are identical,
// byte for byte. The archive is an OCI image layout that also contains the manifest of
// `docker save`, so docker load, ctr images import and skopeo accept it.
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
	"github.com/toolroom/toolroom/internal/proc"
)

// Name is the name of the default image in engines.
const Name = "localhost/toolroom:latest"

// GuestPath is the path of the guest's binary in the image.
const GuestPath = "/usr/local/bin/toolroom-guest"

// Options configures a build.
type Options struct {
	// Guest is the path of the static guest binary. It is required.
	Guest string
	// Suite is the Debian suite; bookworm if empty.
	Suite string
	// Packages are added to those of the default image.
	Packages []string
	// WithoutNode omits node. The image is then less than half as large, and cannot run
	// JavaScript.
	WithoutNode bool
	// Mirror is the URL of a Debian mirror; if empty, the one that apt uses here.
	Mirror string
	// Time is the modification time of every file; 2023-11-14T22:13:20Z if zero.
	Time time.Time
	// Log receives the output of mmdebstrap; nil discards it.
	Log io.Writer
}

// packages are the packages of the default image, for Python and shell scripts. With node,
// which JavaScript needs, the image has 161 MB instead of 66 (compressed 64 instead of 28).
// Node is included anyway, because a program that is refused because of its language costs
// an agent more than the disk space.
var packages = []string{"base-files", "busybox-static", "dash", "libc-bin", "python3"}

// included returns the packages of this image.
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

// hooks run in the unpacked tree. They compile Python's library, because in a read-only
// root Python would compile it again in every run.
var hooks = []string{
	`PYTHONHASHSEED=0 chroot "$1" python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.*/`,
	`chroot "$1" /bin/busybox --install -s /bin`,
	`rm -rf "$1"/usr/share/doc "$1"/usr/share/man "$1"/usr/share/locale "$1"/var/cache "$1"/var/lib/apt "$1"/var/log "$1"/boot`,
}

var defaultTime = time.Unix(1_700_000_000, 0).UTC()

// Tree holds the unpacked packages, from which any number of images and roots can be made.
type Tree struct {
	file string // path of a tar file
	o    Options
}

// Write writes the image to w, as an archive that engines can load.
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

// Unpack writes the image's root file system to folder, for gVisor without a daemon and for
// microVMs. The folder must be empty or must not exist. If this process is root, files keep
// their owners; otherwise they belong to this user.
func (t *Tree) Unpack(folder string) error { return unpackLayer(t.file, folder, t.o) }

// Build unpacks the packages with mmdebstrap and calls use with the tree, which it removes
// afterwards. Errors of Build itself are a [*toolroom.Error] that says what is missing.
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
	work, err := proc.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	// If mmdebstrap is not root, it makes a user namespace, whose user must be able to enter.
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
	var output strings.Builder
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", o.Time.Unix()))
	cmd.Stdout, cmd.Stderr = io.Discard, io.MultiWriter(&output, o.Log)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // mmdebstrap then removes its files
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return toolroom.Errorf(toolroom.CodeCancelled, "the build of the image was stopped: %w", ctx.Err())
		}
		return toolroom.Errorf(toolroom.CodeExecutionFailed, "mmdebstrap: %w: %s", err, lastLines(output.String())).
			WithHint("mmdebstrap needs a Debian mirror (--mirror), space in %s, and root rights or user namespaces", os.TempDir())
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
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "images can be built on Linux only, and this is %s", runtime.GOOS).
			WithCLIHint("build it on Linux with `toolroom image build --output image.tar`, and load the file here")
	}
	program, err := exec.LookPath("mmdebstrap")
	if errors.Is(err, exec.ErrNotFound) {
		return "", toolroom.Errorf(toolroom.CodeUnsupported, "mmdebstrap, which unpacks Debian packages, is not installed").
			WithHint("apt-get install mmdebstrap")
	}
	return program, err
}

// lastLines returns the last lines of text as one line.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
