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
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/sandbox"
)

// bootTimeout bounds one attempt to boot, because a platform that does not work may
// hang.
const bootTimeout = 8 * time.Second

// boot finds out how sandboxes can be started here, by starting one: first with
// cgroups, then without. Before that it removes leftovers of dead processes. It does
// all this only once.
func (d *Driver) boot(ctx context.Context) error {
	end, err := d.booting.Take(ctx)
	if err != nil {
		return unavailable("the probe was stopped", err)
	}
	defer end()
	if d.tried {
		return d.failure
	}
	if runtime.GOOS != "linux" {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gVisor runs on Linux, and this is %s", runtime.GOOS).
			WithHint("use docker, or run the server on Linux")
	}
	if d.program, err = d.find(); err != nil {
		return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: %w", err).
			WithHint("install it: https://gvisor.dev/docs/user_guide/install, or go install gvisor.dev/gvisor/runsc@go")
	}
	_, _ = d.Clean(ctx, false) // a later run removes what cannot be removed now
	var failures []error
	for _, cgroups := range []bool{true, false} {
		d.cgroups = cgroups
		err := d.tryBoot(ctx)
		if err == nil {
			d.tried = true
			return nil
		}
		if ctx.Err() != nil {
			return unavailable("the probe was stopped", context.Cause(ctx)) // inconclusive
		}
		failures = append(failures, err)
	}
	failure := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "gvisor: a sandbox with the platform %s does not boot: %w", d.o.Platform, failures[1])
	if fix := d.folderFix(failures[1]); fix != "" {
		return failure.WithHint("%s", fix) // which may be done while this process runs
	}
	d.tried, d.failure = true, failure.WithHint("%s", d.platformFix())
	return d.failure
}

func (d *Driver) platformFix() string {
	if d.o.Platform == "kvm" {
		return "this machine's KVM cannot run gVisor: remove code.runtimes.gvisor.platform to use systrap"
	}
	return "run the server as root, or where user namespaces are allowed; runsc --debug says more"
}

// tryBoot runs runsc itself in a sandbox, because every root contains it.
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

// held returns the limits that a sandbox for s enforces.
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
	}
	if !s.Networked() {
		m[sandbox.LimitNetwork] = "a network stack with a loopback alone"
	}
	if len(s.Egress) > 0 {
		m[sandbox.LimitEgress] = sandbox.OverStream
	}
	return m
}

// isolation returns the isolation layers of a guest. The guest installs a seccomp
// filter of its own, except in the profile dev.
func (d *Driver) isolation(p sandbox.Profile) string {
	layers := "gvisor(" + d.o.Platform + ")"
	if p != sandbox.Dev {
		layers += "+seccomp"
	}
	return layers
}

// Probe boots a sandbox and reports its isolation.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	if err := d.boot(ctx); err != nil {
		p := sandbox.Probe{State: sandbox.Unsupported, Reason: err.Error()}
		if known, ok := errors.AsType[*toolroom.Error](err); ok {
			p.Reason, p.Fix = strings.TrimPrefix(known.Message, "gvisor: "), known.Hints()
		}
		if ctx.Err() != nil {
			p.State = sandbox.Inconclusive
		}
		return p
	}
	p := sandbox.Probe{
		State: sandbox.Available, Isolation: d.isolation(sandbox.Standard), Version: d.version(ctx),
		Holds: d.held(sandbox.Spec{}), Lacks: map[sandbox.Limit]string{sandbox.LimitPIDs: oci.GVisorPIDs},
		Partly: map[sandbox.Limit]string{sandbox.LimitPIDs: oci.GVisorPartly},
	}
	if !d.cgroups {
		p.Partly = nil
		for _, limit := range []sandbox.Limit{sandbox.LimitCPU, sandbox.LimitMemory, sandbox.LimitPIDs} {
			p.Lacks[limit] = "runsc can make no cgroup here, and has no such limit without one"
		}
	}
	p.Holds[sandbox.LimitEgress] = sandbox.OverStream
	p.Folders = os.Geteuid() == 0 // else the guest could not be the user whose files they are
	p.Languages = guest.Languages(d.installed)
	return p
}

func (d *Driver) version(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, d.program, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return line
}

// installed reports whether the root contains a program.
func (d *Driver) installed(program string) bool {
	return slices.ContainsFunc([]string{"/usr/local/bin/", "/usr/bin/", "/bin/"}, func(folder string) bool {
		// A link may be valid only inside that root.
		_, err := os.Lstat(d.o.Root + folder + program)
		return err == nil
	})
}
