// Package process is the sandbox driver that needs nothing but Linux: it runs a guest
// in its own namespaces and cgroups, under Landlock and seccomp, with the host
// machine's interpreters and none of its data. See package lockdown.
package process

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/lockdown"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Driver starts guests on this machine. Make one with [New].
type Driver struct {
	// Cache is a folder of the server in which the driver caches what makes starts
	// faster; empty means no cache. It must be set before the first start.
	Cache string

	machine lockdown.HostMachine
	// minimum are the isolation layers that every sandbox must have.
	minimum []lockdown.Layer

	remembering sync.Once

	mu       sync.Mutex // guards the fields below
	compiled bool       // the guest for Python, or that has failed
	python   string     // folder of the compiled guest, or empty
}

// New returns a driver that starts sandboxes with the guest's binary. With args the
// binary must call guest.Main.
func New(guestPath string, args []string) *Driver {
	return &Driver{
		machine: lockdown.HostMachine{Init: slices.Concat([]string{guestPath}, args, []string{lockdown.InitArg})},
		minimum: []lockdown.Layer{lockdown.Namespaces, lockdown.Offline, lockdown.Seccomp},
	}
}

// compileGuest compiles the guest for Python, if there is a Python, and returns its folder.
// Without it programs start more slowly. If the cache is emptied, the folder is removed, too;
// then it is made again.
func (d *Driver) compileGuest() (folder string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.compiled && d.python == "" {
		return ""
	}
	if _, err := os.Stat(d.python); d.compiled && err == nil {
		return d.python
	}
	d.compiled, d.python = true, ""
	if python := find("python3"); d.Cache != "" && python != "" {
		ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
		defer cancel()
		d.python, _ = guest.CompilePython(ctx, python, d.Cache)
	}
	return d.python
}

// setProbeCache sets the file in which earlier processes have cached their probe.
func (d *Driver) setProbeCache() {
	d.remembering.Do(func() {
		if d.Cache != "" {
			d.machine.ProbeCache.Path = filepath.Join(d.Cache, "trial.json")
		}
	})
}

const compileTimeout = 30 * time.Second

// searchPath is the search path for programs inside.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Name returns "process".
func (d *Driver) Name() string { return "process" }

// Probe starts a sandbox and reports its isolation.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	d.setProbeCache()
	report := d.machine.Probe(ctx)
	for _, layer := range d.minimum {
		if f := report.Find(layer); !f.Available {
			return sandbox.Probe{State: sandbox.Unsupported, Reason: string(layer) + ": " + f.Reason, Fix: f.Fix}
		}
	}
	p := sandbox.Probe{
		State: sandbox.Available, Isolation: d.machine.LayersOf(lockdown.Spec{}).String(), Version: details(report),
		Holds: map[sandbox.Limit]string{}, Lacks: map[sandbox.Limit]string{}, Partly: map[sandbox.Limit]string{}, Languages: guest.Languages(installed), Layers: true, Folders: true,
	}
	every := lockdown.Limits{Memory: 1, PIDs: 1, CPUs: 1, CPUTime: 1, Disk: 1}
	for _, h := range d.machine.Holds(every) {
		if h.Gap != "" {
			p.Lacks[limitOf(h)] = h.Gap
		}
	}
	for limit, by := range heldLimits(d.machine.Holds(every)) {
		if p.Lacks[limit] == "" {
			p.Holds[limit] = by
		} else {
			p.Partly[limit] = by
		}
	}
	p.Holds[sandbox.LimitNetwork] = report.Find(lockdown.Offline).Detail
	p.Holds[sandbox.LimitEgress] = sandbox.OverStream
	return p
}

// details describes, for people, how each layer is enforced.
func details(r lockdown.Report) string {
	var all []string
	for _, f := range r {
		if f.Available && f.Layer != lockdown.Seccomp {
			all = append(all, f.Detail)
		}
	}
	return strings.Join(all, "; ")
}

func installed(program string) bool { return find(program) != "" }

// find returns the path of a program inside a sandbox, or "".
func find(program string) string {
	for _, dir := range filepath.SplitList(searchPath) {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}

// limitOf returns the driver-independent name of a limit.
func limitOf(h lockdown.Held) sandbox.Limit {
	switch h.Limit {
	case "cpus", "cpu_time":
		return sandbox.LimitCPU
	default:
		return sandbox.Limit(h.Limit)
	}
}

// heldLimits maps the enforced limits to their mechanism and its gap, if there is one.
func heldLimits(list []lockdown.Held) map[sandbox.Limit]string {
	m := map[sandbox.Limit]string{sandbox.LimitWall: "SIGKILL of the whole tree"}
	for _, h := range list {
		switch {
		case h.By == "" || h.Limit == "inodes":
		case h.Gap != "":
			m[limitOf(h)] = h.By + " (" + h.Gap + ")"
		default:
			m[limitOf(h)] = h.By
		}
	}
	return m
}

// Start starts the guest in a sandbox of its own.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	d.setProbeCache()
	spec := d.spec(s, d.compileGuest())
	b := &instance{spec: s}
	theirs, err := b.openPipes()
	defer closeAll(theirs)
	if err != nil {
		b.close()
		return nil, unavailable(err)
	}
	spec.Stdin, spec.Stdout, spec.Stderr = theirs[0], theirs[1], theirs[2]
	// The sandbox outlives ctx, which bounds its start only.
	b.process, err = d.machine.Start(context.WithoutCancel(ctx), spec)
	if err != nil {
		b.close()
		return nil, explain(err)
	}
	if ctx.Err() != nil {
		b.process.Kill()
		b.close()
		return nil, unavailable(context.Cause(ctx))
	}
	return b, nil
}

// spec translates s for package lockdown. Python is the folder of the compiled guest, or empty.
func (d *Driver) spec(s sandbox.Spec, python string) lockdown.Spec {
	out := lockdown.Spec{
		Path: s.Guest, Args: append([]string{"toolroom-guest"}, s.Args...),
		Env:   slices.Concat([]string{"PATH=" + searchPath, "HOME=" + lockdown.WorkDir, "LANG=C.UTF-8", guest.WorkEnv + "=" + lockdown.WorkDir}, s.Env),
		Root:  lockdown.System(),
		Binds: []lockdown.Bind{{Source: s.Guest, Target: guestPath}},
		Limits: lockdown.Limits{
			Memory: s.Limits.Memory, PIDs: s.Limits.PIDs, CPUs: s.Limits.CPUs, CPUTime: s.Limits.CPU, Disk: s.Limits.Disk,
		},
		Network: s.Networked(), Loopback: len(s.Egress) > 0,
		Minimum: d.minimum, BestEffort: s.BestEffort,
	}
	for _, limit := range s.Defaulted {
		out.Partly = append(out.Partly, string(limit))
	}
	out.Path = guestPath
	if python != "" {
		out.Env = append(out.Env, guest.PythonEnv+"="+pythonPath)
		out.Binds = append(out.Binds, lockdown.Bind{Source: python, Target: pythonPath})
	}
	if s.Layer != "" {
		out.Env = append(out.Env, guest.LayerEnv+"="+sandbox.LayerPath)
		out.Binds = append(out.Binds, lockdown.Bind{Source: s.Layer, Target: sandbox.LayerPath})
	}
	for _, f := range s.Folders {
		out.AsServer = true // with its rights to the files, but no capabilities
		out.Binds = append(out.Binds, lockdown.Bind{Source: f.Source, Target: f.Target, Writable: f.Writable})
	}
	if s.Profile == sandbox.Hardened {
		out.Seccomp = lockdown.Hardened
	}
	return out
}

// Paths of the guest's binary and of the compiled guest for Python inside.
const (
	guestPath  = "/run/toolroom-guest"
	pythonPath = "/run/toolroom-python"
)

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the process sandbox: %w", err).WithCLIHint("toolroom doctor shows what is missing")
}

func explain(err error) error {
	var layer *lockdown.LayerError
	var limit *lockdown.LimitError
	switch {
	case errors.As(err, &layer):
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%w", err).WithHint("%s", layer.Finding.Fix)
	case errors.As(err, &limit):
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%w", err).
			WithHint("choose another runtime, or accept best effort").WithCLIHint("toolroom doctor shows the limits that each runtime enforces")
	default:
		return unavailable(err)
	}
}

// instance is one sandbox.
type instance struct {
	process *lockdown.Process
	in, out *os.File
	spec    sandbox.Spec
	stderr  *proc.Follower
}

// openPipes makes pipes for the guest's stdin, stdout and stderr, and returns the guest's
// ends.
func (b *instance) openPipes() (theirs []*os.File, err error) {
	in, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b.in, theirs = ours, append(theirs, in)
	ours, out, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	b.out, theirs = ours, append(theirs, out)
	read, write, err := os.Pipe()
	if err != nil {
		return theirs, err
	}
	b.stderr = proc.Follow(func(to io.Writer) { // until the last process has closed the other end
		defer read.Close()
		_, _ = io.Copy(to, read)
	})
	return append(theirs, write), nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (b *instance) close() {
	for _, f := range []*os.File{b.in, b.out} {
		if f != nil {
			f.Close()
		}
	}
}

func (b *instance) Stream() io.ReadWriteCloser {
	return proc.Stream{ReadCloser: b.out, WriteCloser: b.in}
}

func (b *instance) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-b.process.Done():
	case <-ctx.Done():
		return sandbox.Exit{}, context.Cause(ctx)
	}
	exit, err := b.process.Wait()
	out := sandbox.Exit{Code: exit.Code, OOM: exit.Exceeded == "memory", OutOfCPU: exit.Exceeded == "cpu_time", Stderr: b.stderr.Last(ctx)}
	if exit.Signal != 0 {
		out.Signal = syscall.Signal(exit.Signal).String()
	}
	return out, err
}

// Halt kills the guest and all processes it started, and does not wait for their end. Kill
// must still be called.
func (b *instance) Halt() { b.process.Halt() }

func (b *instance) Kill(context.Context) error {
	b.process.Kill()
	b.close()
	return nil
}

func (b *instance) Usage() sandbox.Usage {
	u := b.process.Usage()
	return sandbox.Usage{CPU: u.CPU, PeakMemory: u.Memory}
}

func (b *instance) Isolation() string { return b.process.Layers().String() }

func (b *instance) Held() map[sandbox.Limit]string {
	m := heldLimits(b.process.Held())
	if !b.spec.Networked() {
		m[sandbox.LimitNetwork] = "network namespace"
	}
	if len(b.spec.Egress) > 0 {
		m[sandbox.LimitEgress] = sandbox.OverStream
	}
	return m
}

// Clean removes the cgroups and folders of processes that have died. The processes
// that ran in them have ended, too.
func (d *Driver) Clean(_ context.Context, dry bool) ([]sandbox.Leftover, error) {
	var list []sandbox.Leftover
	for _, left := range lockdown.Leftovers() {
		kind := "folder"
		if left.Cgroup {
			kind = "cgroup"
		}
		list = append(list, sandbox.Leftover{Kind: kind, Name: left.Path}.Remove(dry, left.Remove))
	}
	return list, nil
}
