// Package gvisor is the sandbox driver that starts gVisor itself, without a daemon:
// runsc runs one bundle per guest, and its stdin and stdout are the bridge.
package gvisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/drivers/turn"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/host"
	"github.com/toolroom/toolroom/sandbox"
)

// Options configures a driver.
type Options struct {
	// Program is the path of runsc; if empty, it is looked up in the PATH.
	Program string
	// Platform is systrap (the default), ptrace or kvm.
	Platform string
	// Root is the folder of a root file system, as made by `toolroom image build
	// --root`. If empty, sandboxes see the programs and libraries of this machine, and
	// none of its data.
	Root string
	// Restore makes sandboxes start from a checkpoint, from the third sandbox of a kind
	// on, if runsc runs as root. The checkpoint contains a loaded Python.
	Restore bool
	// Work is the folder for bundles; the system's folder for temporary files if empty.
	Work string
}

// Driver starts guests under runsc. Make one with [New].
type Driver struct {
	o Options

	// The results of boot, valid if tried is set: the path of runsc, whether it can make
	// cgroups here, and why no sandbox boots.
	booting        turn.Turn
	program        string
	cgroups, tried bool
	failure        error

	checkpointsMu sync.Mutex
	checkpoints   map[string]*checkpoint // by kind
	requested     map[string]bool        // requested kinds
}

// New returns a driver.
func New(o Options) *Driver {
	if o.Platform == "" {
		o.Platform = "systrap"
	}
	if o.Work == "" {
		o.Work = os.TempDir()
	}
	return &Driver{o: o, booting: turn.New()}
}

// Name returns "gvisor".
func (d *Driver) Name() string { return "gvisor" }

// minPIDs is the number of threads that runsc itself needs; they count towards the
// guest's limit.
const minPIDs = 64

// Start makes a bundle and runs it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if s.Limits.PIDs > 0 && s.Limits.PIDs < minPIDs {
		if !s.BestEffort {
			return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "gVisor cannot enforce a limit of %d processes: %d of its own threads count, too", s.Limits.PIDs, minPIDs).
				WithHint("choose another runtime, or accept best effort")
		}
		s.Limits.PIDs = minPIDs
	}
	if s.Image != "" && s.Image != d.o.Root {
		// A program could choose any folder of this machine, even /.
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a run cannot choose the root file system of gvisor").
			WithHint("set code.runtimes.gvisor.root, or use docker/runsc with an image")
	}
	if err := d.boot(ctx); err != nil {
		return nil, err
	}
	from := d.checkpointOf(ctx, s)
	if ctx.Err() != nil {
		return nil, unavailable("the start was stopped", context.Cause(ctx))
	}
	if from != nil {
		s = withCheckpointWait(s)
	}
	b, err := d.start(s, from)
	if err != nil {
		e := unavailable("runsc cannot be started", err)
		if fix := d.folderFix(err); fix != "" {
			return nil, e.WithHint("%s", fix)
		}
		return nil, e
	}
	return b, nil
}

func unavailable(what string, err error) *toolroom.Error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: %s: %w", what, err).WithCLIHint("toolroom doctor shows what is missing")
}

// folderFix returns advice if the error is that the work folder cannot hold a bundle,
// or "".
func (d *Driver) folderFix(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "free disk space in " + d.o.Work + ", or set TMPDIR to a folder on another disk"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return d.o.Work + " must be a folder that this user may write to; TMPDIR selects another"
	}
	return ""
}

// start runs a bundle for s, from a checkpoint unless it is nil, with cgroups if they
// can be made.
func (d *Driver) start(s sandbox.Spec, from *checkpoint) (_ *instance, err error) {
	key := strings.ToLower(rand.Text())
	b := &instance{driver: d, id: idPrefix + key, isolation: d.isolation(s.Profile), held: d.held(s)}
	b.folder = filepath.Join(d.o.Work, folderPrefix+proc.Owner()+"-"+key)
	if err := os.Mkdir(b.folder, 0o711); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.folder))
		}
	}()
	// The sandbox's processes run as nobody and must be able to enter the folder.
	if err := os.Chmod(b.folder, 0o711); err != nil {
		return nil, err
	}
	o := oci.Options{ID: b.id, Root: d.o.Root, GVisor: true}
	if o.Root == "" {
		o.Root = filepath.Join(b.folder, "root")
		if o.Mounts, err = systemRoot(o.Root); err != nil {
			return nil, err
		}
	}
	config, err := json.Marshal(oci.Spec(s, o))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(b.folder, "config.json"), config, 0o600); err != nil {
		return nil, err
	}
	b.network = "none"
	if s.Networked() {
		b.network = "host"
	}
	how := []string{"run", "--bundle", b.folder, b.id}
	if from != nil {
		how = []string{"restore", "--bundle", b.folder, "--image-path", from.folder, b.id}
	}
	b.Child, err = host.StartChild(proc.Spec{
		Command: d.program, Args: append(b.flags(), how...),
		Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: b.folder, Owner: proc.Owner(),
	})
	if err == nil && from != nil {
		b.notifyRestored(from)
	}
	return b, err
}

// flags returns the first flags of every runsc command for this sandbox.
func (b *instance) flags() []string {
	flags := []string{
		"--root", filepath.Join(b.folder, "state"), "--platform=" + b.driver.o.Platform, "--network=" + b.network,
		"--overlay2=root:memory", // changes of the profile dev must not reach the shared root
	}
	if os.Geteuid() != 0 {
		flags = append(flags, "--rootless")
	}
	if !b.driver.cgroups {
		flags = append(flags, "--ignore-cgroups")
	}
	return flags
}

// A bundle's folder is named after its owner and a random key; the id of its container
// is idPrefix and the key.
const (
	folderPrefix = "toolroom-gvisor-"
	idPrefix     = "toolroom-gvisor-"
)

// find returns the path of runsc.
func (d *Driver) find() (string, error) {
	name := d.o.Program
	if name == "" {
		name = "runsc"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s was not found", name)
	}
	return filepath.Abs(path)
}
