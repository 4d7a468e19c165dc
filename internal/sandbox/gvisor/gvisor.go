// Package gvisor is the sandbox driver that starts gVisor itself, without a
// daemon: runsc runs one bundle per guest, whose stdin and stdout are the
// bridge.
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
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/internal/sandbox/child"
	"github.com/toolroom/toolroom/internal/sandbox/oci"
	"github.com/toolroom/toolroom/sandbox"
)

// Options of a driver.
type Options struct {
	// Program is runsc; it is looked for in the PATH if empty.
	Program string
	// Platform is systrap (the default), ptrace or kvm.
	Platform string
	// Root is the folder of a root file system, as `toolroom image build --root`
	// makes it; empty is the programs and libraries of this machine, and none of
	// its data.
	Root string
	// Restore has sandboxes begin from a checkpoint of one of their kind, from the
	// third of a kind on, where runsc runs as root. Python is loaded in it.
	Restore bool
	// Work is the folder for bundles; the system's folder for temporary files if
	// empty.
	Work string
}

// Driver starts guests under runsc. Make one with [New].
type Driver struct {
	o Options

	// What boot found out, once it was tried: the path of runsc, whether it can
	// make cgroups here, and why nothing boots.
	mu             sync.Mutex
	program        string
	cgroups, tried bool
	failure        error

	keeping sync.Mutex
	kept    map[string]*checkpoint // by kind
	asked   map[string]bool        // kinds that came
}

// New makes a driver.
func New(o Options) *Driver {
	if o.Platform == "" {
		o.Platform = "systrap"
	}
	if o.Work == "" {
		o.Work = os.TempDir()
	}
	return &Driver{o: o}
}

// Name is gvisor.
func (d *Driver) Name() string { return "gvisor" }

// minPIDs is how many host threads runsc itself needs; they count as the
// guest's.
const minPIDs = 64

// Start makes a bundle and runs it.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if s.Limits.PIDs > 0 && s.Limits.PIDs < minPIDs {
		if !s.BestEffort {
			return nil, toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "gVisor cannot hold %d processes: %d of its own threads count too", s.Limits.PIDs, minPIDs).
				WithHint("ask for %d or more, choose another runtime, or accept best effort", minPIDs)
		}
		s.Limits.PIDs = minPIDs
	}
	if s.Image != "" && s.Image != d.o.Root {
		// A folder of this machine that a program chooses could be any, / among them.
		return nil, toolroom.Errorf(toolroom.CodeInvalidArguments, "a run cannot choose the root file system of gvisor").
			WithHint("set code.runtimes.gvisor.root, or use docker/runsc with an image")
	}
	if err := d.boot(ctx); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, unavailable("the start was stopped", context.Cause(ctx))
	}
	from := d.checkpointOf(ctx, s)
	if from != nil {
		s = held(s)
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
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: %s: %w", what, err).WithHint("toolroom doctor shows what is missing")
}

// folderFix says what to do about a folder that takes no bundle; it is empty
// where that is not why.
func (d *Driver) folderFix(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "free the disk of " + d.o.Work + ", or set TMPDIR to a folder of another"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.EROFS):
		return d.o.Work + " must be a folder that this user may write to; TMPDIR names another"
	}
	return ""
}

// start runs a bundle for s, from a checkpoint unless that is nil, with cgroups
// where they can be made.
func (d *Driver) start(s sandbox.Spec, from *checkpoint) (_ *box, err error) {
	key := strings.ToLower(rand.Text())
	b := &box{driver: d, id: idPrefix + key, isolation: d.isolation(s.Profile), held: d.held(s)}
	b.folder = filepath.Join(d.o.Work, folderPrefix+proc.Owner()+"-"+key)
	if err := os.Mkdir(b.folder, 0o711); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.folder))
		}
	}()
	// The sandbox's processes are nobody, and must get in.
	if err := os.Chmod(b.folder, 0o711); err != nil {
		return nil, err
	}
	o := oci.Options{ID: b.id, Root: d.o.Root}
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
	b.Child, err = child.Start(proc.Spec{
		Command: d.program, Args: append(b.flags(), how...),
		Env: []string{"PATH=" + os.Getenv("PATH")}, Dir: b.folder, Owner: proc.Owner(),
	})
	if err == nil && from != nil {
		b.goOn(from)
	}
	return b, err
}

// flags are what every call of runsc for this box begins with.
func (b *box) flags() []string {
	flags := []string{
		"--root", filepath.Join(b.folder, "state"), "--platform=" + b.driver.o.Platform, "--network=" + b.network,
		"--overlay2=root:memory", // what dev writes must not end up in the root that all share
	}
	if os.Geteuid() != 0 {
		flags = append(flags, "--rootless")
	}
	if !b.driver.cgroups {
		flags = append(flags, "--ignore-cgroups")
	}
	return flags
}

// A bundle's folder is named after its owner and the key of its container, whose
// id is idPrefix and the key.
const (
	folderPrefix = "toolroom-gvisor-"
	idPrefix     = "toolroom-gvisor-"
)

// find looks for runsc.
func (d *Driver) find() (string, error) {
	name := d.o.Program
	if name == "" {
		name = "runsc"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not there", name)
	}
	return filepath.Abs(path)
}
