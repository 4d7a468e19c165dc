package gvisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// bootTimeout is how long one attempt to boot may take: a platform that does not
// work may also hang.
const bootTimeout = 8 * time.Second

// boot finds out how sandboxes can be started here, by starting one: first with
// cgroups and then without. What dead processes have left is removed before. It
// does so once.
func (d *Driver) boot(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.tried {
		return d.failure
	}
	if runtime.GOOS != "linux" {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gVisor runs on Linux, and this is %s", runtime.GOOS).
			WithHint("use docker, or run the server on Linux")
	}
	var err error
	if d.program, err = d.find(); err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: %w", err).
			WithHint("install it: https://gvisor.dev/docs/user_guide/install, or go install gvisor.dev/gvisor/runsc@go")
	}
	_, _ = d.Clean(ctx, false) // what cannot be removed now can be later
	var failures []error
	for _, cgroups := range []bool{true, false} {
		d.cgroups = cgroups
		err := d.tryBoot(ctx)
		if err == nil {
			d.tried = true
			return nil
		}
		if ctx.Err() != nil {
			return unavailable("the probe was stopped", context.Cause(ctx)) // which says nothing
		}
		failures = append(failures, err)
	}
	fix := d.folderFix(failures[1])
	if fix == "" {
		fix = d.platformFix()
		d.tried = true // a folder can be mended while this runs
	}
	d.failure = toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: a sandbox with the platform %s does not boot: %w", d.o.Platform, failures[1]).
		WithHint("%s", fix)
	return d.failure
}

func (d *Driver) platformFix() string {
	if d.o.Platform == "kvm" {
		return "this machine's KVM cannot run gVisor: leave code.runtimes.gvisor.platform out for systrap"
	}
	return "run the server as root, or where user namespaces are allowed; runsc --debug says more"
}

// tryBoot runs a program that every root has, because it is runsc itself.
func (d *Driver) tryBoot(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, bootTimeout)
	defer done()
	b, err := d.start(sandbox.Spec{Profile: sandbox.Standard, Guest: d.program, Args: []string{"--version"}, Limits: sandbox.Limits{Memory: 256 << 20, CPUs: 1}}, nil)
	if err != nil {
		return err
	}
	exit, err := b.Wait(ctx)
	ending, ended := context.WithTimeout(context.WithoutCancel(ctx), bootTimeout)
	defer ended()
	err = errors.Join(err, b.Kill(ending))
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("exit code %d: %s", exit.Code, strings.TrimSpace(exit.Stderr))
	}
	return err
}

// held are the limits that a sandbox for s holds.
func (d *Driver) held(s sandbox.Spec) map[sandbox.Limit]string {
	m := map[sandbox.Limit]string{
		sandbox.LimitWall: "SIGKILL of runsc",
		sandbox.LimitDisk: "size of the tmpfs, which gVisor keeps",
	}
	if d.cgroups {
		cgroup := "cgroup v1"
		if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
			cgroup = "cgroup v2"
		}
		m[sandbox.LimitCPU] = cgroup + " quota, RLIMIT_CPU of each process"
		m[sandbox.LimitMemory] = cgroup + ", gVisor's own memory included"
		m[sandbox.LimitPIDs] = cgroup + ", gVisor's own threads included"
	}
	if !s.Networked() {
		m[sandbox.LimitNetwork] = "a network stack with a loopback alone"
	}
	if len(s.Egress) > 0 {
		m[sandbox.LimitEgress] = sandbox.OverStream
	}
	return m
}

// isolation is what stands around a guest, which brings a filter of its own
// unless it is for development.
func (d *Driver) isolation(p sandbox.Profile) string {
	walls := "gvisor(" + d.o.Platform + ")"
	if p != sandbox.Dev {
		walls += "+seccomp"
	}
	return walls
}

// Probe boots a sandbox.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	if err := d.boot(ctx); err != nil {
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error()}
		var known *toolroom.Error
		if errors.As(err, &known) {
			p.Reason, p.Fix = strings.TrimPrefix(known.Message, "gvisor: "), known.Hint
		}
		if ctx.Err() != nil {
			p.State = sandbox.Inconclusive
		}
		return p
	}
	p := sandbox.Probe{
		State: sandbox.Available, Isolation: d.isolation(sandbox.Standard), Version: d.version(ctx),
		Holds: d.held(sandbox.Spec{}), Lacks: map[sandbox.Limit]string{},
	}
	if !d.cgroups {
		for _, limit := range []sandbox.Limit{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs} {
			p.Lacks[limit] = "runsc can make no cgroup here, and has no such limit without one"
		}
	}
	p.Holds[sandbox.LimitEgress] = sandbox.OverStream
	p.Languages = guest.Languages(d.installed)
	return p
}

func (d *Driver) version(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, d.program, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// installed tells whether a program is where the root has its programs.
func (d *Driver) installed(program string) bool {
	return slices.ContainsFunc([]string{"/usr/local/bin/", "/usr/bin/", "/bin/"}, func(folder string) bool {
		// A link may mean a place in that root.
		_, err := os.Lstat(d.o.Root + folder + program)
		return err == nil
	})
}
