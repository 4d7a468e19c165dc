// Package process is the sandbox driver that needs nothing but Linux: a guest
// runs in namespaces, Landlock, seccomp and cgroups of its own, with the
// interpreters of the host and none of its data. See package lockdown.
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
	// Cache is a folder of the server's own in which the driver keeps what makes
	// starts faster; empty is none. It is set before the first start.
	Cache string

	host lockdown.Host
	// minimum is what a sandbox has at least.
	minimum []lockdown.Rung

	remembering, compiling sync.Once
	python                 string // the guest for Python, compiled; empty if there is none
}

// New makes a driver whose sandboxes are begun by the guest's binary, which must
// lead to guest.Main when it is started with args.
func New(guestPath string, args []string) *Driver {
	return &Driver{
		host:    lockdown.Host{Init: slices.Concat([]string{guestPath}, args, []string{lockdown.InitArg})},
		minimum: []lockdown.Rung{lockdown.Namespaces, lockdown.Offline, lockdown.Seccomp},
	}
}

// compile finds the guest for Python, compiled, where there is a Python. Without
// it programs run all the same, and later.
func (d *Driver) compile() {
	d.compiling.Do(func() {
		if python := find("python3"); d.Cache != "" && python != "" {
			ctx, cancel := context.WithTimeout(context.Background(), compileTimeout)
			defer cancel()
			d.python, _ = guest.CompilePython(ctx, python, d.Cache)
		}
	})
}

// remember tells the host where it may look up a trial of an earlier process.
func (d *Driver) remember() {
	d.remembering.Do(func() {
		if d.Cache != "" {
			d.host.Trial.Path = filepath.Join(d.Cache, "trial.json")
		}
	})
}

const compileTimeout = 30 * time.Second

// path is where programs are looked for inside.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Name is process.
func (d *Driver) Name() string { return "process" }

// Probe starts a sandbox and reports what it reached.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	d.remember()
	report := d.host.Probe(ctx)
	for _, rung := range d.minimum {
		if f := report.Find(rung); !f.Available {
			return sandbox.Probe{State: sandbox.Unsupported, Reason: string(rung) + ": " + f.Reason, Fix: f.Fix}
		}
	}
	p := sandbox.Probe{
		State: sandbox.Available, Isolation: d.host.Reaches(lockdown.Spec{}).String(), Version: details(report),
		Holds: map[sandbox.Limit]string{}, Lacks: map[sandbox.Limit]string{}, Partly: map[sandbox.Limit]string{}, Languages: guest.Languages(installed),
	}
	every := lockdown.Limits{Memory: 1, PIDs: 1, CPUs: 1, CPUTime: 1, Disk: 1}
	for _, h := range d.host.Holds(every) {
		if h.Gap != "" {
			p.Lacks[limitOf(h)] = h.Gap
		}
	}
	for limit, by := range held(d.host.Holds(every)) {
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

// details are what holds each rung, for people.
func details(r lockdown.Report) string {
	var all []string
	for _, f := range r {
		if f.Available && f.Rung != lockdown.Seccomp {
			all = append(all, f.Detail)
		}
	}
	return strings.Join(all, "; ")
}

func installed(program string) bool { return find(program) != "" }

// find is where a sandbox finds a program, empty if nowhere.
func find(program string) string {
	for _, dir := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}

// limitOf is the contract's word for a limit.
func limitOf(h lockdown.Held) sandbox.Limit {
	switch h.Limit {
	case "cpus", "cpu_time":
		return sandbox.LimitCPU
	default:
		return sandbox.Limit(h.Limit)
	}
}

// held are the limits that are held, with their gaps where they have some.
func held(list []lockdown.Held) map[sandbox.Limit]string {
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
	d.compile()
	d.remember()
	spec := d.spec(s)
	b := &box{spec: s}
	theirs, err := b.open()
	defer closeAll(theirs)
	if err != nil {
		b.close()
		return nil, unavailable(err)
	}
	spec.Stdin, spec.Stdout, spec.Stderr = theirs[0], theirs[1], theirs[2]
	// The sandbox outlives ctx, which bounds its start alone.
	b.process, err = d.host.Start(context.WithoutCancel(ctx), spec)
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

// spec is what the contract's words mean here.
func (d *Driver) spec(s sandbox.Spec) lockdown.Spec {
	out := lockdown.Spec{
		Path: s.Guest, Args: append([]string{"toolroom-guest"}, s.Args...),
		Env:   slices.Concat([]string{"PATH=" + path, "HOME=" + lockdown.WorkDir, "LANG=C.UTF-8", guest.WorkEnv + "=" + lockdown.WorkDir}, s.Env),
		Root:  lockdown.System(),
		Binds: []lockdown.Bind{{Source: s.Guest, Target: guestPath}},
		Limits: lockdown.Limits{
			Memory: s.Limits.Memory, PIDs: s.Limits.PIDs, CPUs: s.Limits.CPUs, CPUTime: s.Limits.CPU, Disk: s.Limits.Disk,
		},
		Network: s.Networked(), Loopback: len(s.Egress) > 0,
		Minimum: d.minimum, BestEffort: s.BestEffort,
	}
	for _, limit := range s.Unasked {
		out.Partly = append(out.Partly, string(limit))
	}
	out.Path = guestPath
	if d.python != "" {
		out.Env = append(out.Env, guest.PythonEnv+"="+pythonPath)
		out.Binds = append(out.Binds, lockdown.Bind{Source: d.python, Target: pythonPath})
	}
	if s.Profile == sandbox.Hardened {
		out.Seccomp = lockdown.Hardened
	}
	return out
}

// Where the guest's binary is inside, and what it needs for Python.
const (
	guestPath  = "/run/toolroom-guest"
	pythonPath = "/run/toolroom-python"
)

func unavailable(err error) error {
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the process sandbox: %w", err).WithHint("toolroom doctor shows what is missing")
}

func explain(err error) error {
	var rung *lockdown.RungError
	var limit *lockdown.LimitError
	switch {
	case errors.As(err, &rung):
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%w", err).WithHint("%s", rung.Finding.Fix)
	case errors.As(err, &limit):
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%w", err).
			WithHint("choose another runtime (toolroom doctor shows what each holds), or accept best effort")
	default:
		return unavailable(err)
	}
}

// box is one sandbox.
type box struct {
	process *lockdown.Process
	in, out *os.File
	spec    sandbox.Spec
	stderr  *proc.Follower
}

// open makes the box's ends of the guest's stdin, stdout and stderr, and returns
// the guest's.
func (b *box) open() (theirs []*os.File, err error) {
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
	b.stderr = proc.Follow(func(to io.Writer) { // until nobody has the other end any more
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

func (b *box) close() {
	for _, f := range []*os.File{b.in, b.out} {
		if f != nil {
			f.Close()
		}
	}
}

func (b *box) Stream() io.ReadWriteCloser { return stream{b} }

type stream struct{ b *box }

func (s stream) Read(p []byte) (int, error)  { return s.b.out.Read(p) }
func (s stream) Write(p []byte) (int, error) { return s.b.in.Write(p) }
func (s stream) Close() error                { return errors.Join(s.b.in.Close(), s.b.out.Close()) }

func (b *box) Wait(ctx context.Context) (sandbox.Exit, error) {
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

func (b *box) Kill(context.Context) error {
	b.process.Kill()
	b.close()
	return nil
}

func (b *box) Usage() sandbox.Usage {
	u := b.process.Usage()
	return sandbox.Usage{CPU: u.CPU, PeakMemory: u.Memory}
}

func (b *box) Isolation() string { return b.process.Rungs().String() }

func (b *box) Held() map[sandbox.Limit]string {
	m := held(b.process.Held())
	if !b.spec.Networked() {
		m[sandbox.LimitNetwork] = "network namespace"
	}
	if len(b.spec.Egress) > 0 {
		m[sandbox.LimitEgress] = sandbox.OverStream
	}
	return m
}
