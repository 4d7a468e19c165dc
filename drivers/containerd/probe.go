//go:build linux

package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/sandbox"
)

const (
	// probeTimeout bounds the time in which a daemon must answer, and dialTimeout the
	// time of a connection.
	probeTimeout = 5 * time.Second
	dialTimeout  = 3 * time.Second
)

// tryConnect connects to a socket and closes the connection.
func tryConnect(ctx context.Context, address string) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Probe asks the daemon for its version and for the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	if p, ok := d.probeRuntime(); !ok {
		return p
	}
	ctx, done := context.WithTimeout(d.withNamespace(ctx), probeTimeout)
	defer done()
	c, err := d.connect(ctx)
	if err != nil {
		return d.refusal(ctx, err)
	}
	v, err := c.Version(ctx)
	if err != nil {
		return d.refusal(ctx, err)
	}
	img, err := c.GetImage(ctx, d.o.Image)
	if errdefs.IsNotFound(err) {
		return sandbox.Probe{
			State: sandbox.Unsupported, Version: v.Version,
			Reason: fmt.Sprintf("the namespace %s has no image %s", d.o.Namespace, d.o.Image), Fix: d.imageFix(d.o.Image),
		}
	}
	if err != nil {
		return d.refusal(ctx, err)
	}
	p := sandbox.Probe{State: sandbox.Available, Version: v.Version, Isolation: isolation(d.o.Runtime, sandbox.Standard), DevLacks: oci.DevLacks(), Images: true, Runtimes: d.runtimes(), Holds: held(sandbox.Spec{})}
	if isGVisor(d.o.Runtime) {
		p.Lacks = map[sandbox.Limit]string{sandbox.LimitPIDs: oci.GVisorPIDs}
		p.Partly = map[sandbox.Limit]string{sandbox.LimitPIDs: oci.GVisorPartly}
		delete(p.Holds, sandbox.LimitPIDs)
	}
	p.Folders = hasFolders(d.o.Runtime)
	if hasLoopback(d.o.Runtime) {
		p.Holds[sandbox.LimitEgress] = sandbox.OverStream
	}
	if spec, err := img.Spec(ctx); err == nil {
		if languages := spec.Config.Labels[image.LanguagesLabel]; languages != "" {
			p.Languages = strings.Split(languages, ",")
		}
	}
	return p
}

// probeRuntime checks that this machine has what the configured runtime needs, before
// the daemon fails to start it.
func (d *Driver) probeRuntime() (sandbox.Probe, bool) {
	p := sandbox.Probe{State: sandbox.Unsupported}
	switch d.o.Runtime {
	case "", "runc":
		return p, true
	case "kata", KataShim:
		if _, err := exec.LookPath("containerd-shim-kata-v2"); err != nil {
			p.Reason, p.Fix = "containerd-shim-kata-v2 is not in the PATH", "install Kata Containers (https://katacontainers.io), on a machine with /dev/kvm"
			return p, false
		}
		kvm, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			p.Reason, p.Fix = fmt.Sprintf("Kata needs virtual machines: %v", err), "use a machine that has KVM, or nested virtualization turned on"
			return p, false
		}
		kvm.Close()
		return p, true
	}
	if strings.Contains(d.o.Runtime, ".") {
		return p, true // the daemon looks it up
	}
	if _, err := exec.LookPath(d.o.Runtime); err != nil {
		p.Reason, p.Fix = d.o.Runtime+" is not in the PATH", "install it, or change code.runtimes.containerd.runtime"
		return p, false
	}
	return p, true
}

// isGVisor reports whether containers of a runtime run under gVisor.
func isGVisor(runtime string) bool {
	return strings.Contains(isolation(runtime, sandbox.Dev), "gvisor(")
}

// hasLoopback reports whether containers of a runtime have a loopback that is up. runc
// brings it up; runsc uses the interfaces as they are, and here nothing else has brought
// it up.
func hasLoopback(runtime string) bool {
	return runtime == "" || runtime == "runc" || runtime == runcShim
}

// hasFolders reports whether containers of a runtime can show folders of this machine: those
// that are no virtual machines.
func hasFolders(runtime string) bool { return hasLoopback(runtime) || isGVisor(runtime) }

// held returns the limits that a container enforces. A daemon without a controller
// refuses to make the container.
func held(s sandbox.Spec) map[sandbox.Limit]string {
	cgroup := "cgroup v1"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		cgroup = "cgroup v2"
	}
	m := map[sandbox.Limit]string{
		sandbox.LimitWall:   "SIGKILL of the task",
		sandbox.LimitCPU:    cgroup + " quota, RLIMIT_CPU of each process",
		sandbox.LimitMemory: cgroup,
		sandbox.LimitPIDs:   cgroup,
		sandbox.LimitDisk:   "size of the tmpfs",
	}
	if isGVisor(s.Runtime) {
		delete(m, sandbox.LimitPIDs)
	}
	if s.Profile == sandbox.Dev {
		delete(m, sandbox.LimitDisk)
	}
	if !s.Networked() {
		m[sandbox.LimitNetwork] = "network namespace"
	}
	if len(s.Egress) > 0 {
		m[sandbox.LimitEgress] = sandbox.OverStream
	}
	return m
}

// isolation returns the isolation layers of a guest. A runtime that is a plain name is a
// program of the PATH; the others are shims.
func isolation(runtime string, p sandbox.Profile) string {
	switch runtime {
	case "", runcShim:
		runtime = "runc"
	case "kata":
		runtime = KataShim
	}
	return oci.Isolation("containerd", runtime, runtime, p)
}

// runtimes maps the runtimes that a run may choose to their isolation layers.
func (d *Driver) runtimes() map[string]string {
	if d.name == "kata" {
		return nil
	}
	all := map[string]string{}
	for _, name := range allowedRuntimes {
		if _, err := exec.LookPath(name); err == nil {
			all[name] = isolation(name, sandbox.Standard)
		}
	}
	return all
}

func (d *Driver) imageFix(name string) string {
	if name == image.Name {
		return "toolroom image build --containerd makes it"
	}
	return fmt.Sprintf("ctr -n %s images pull %s", d.o.Namespace, name)
}

// refusal describes why the daemon cannot be used, and what to do about it.
func (d *Driver) refusal(ctx context.Context, err error) sandbox.Probe {
	p := sandbox.Probe{State: sandbox.Unsupported}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		p.Reason = "there is no socket " + d.o.Address
		p.Fix = "install and start containerd, or set its address in code.runtimes.containerd.address"
	case errors.Is(err, fs.ErrPermission):
		p.Reason = "this user may not use " + d.o.Address
		p.Fix = "run the server as a user with access, which is equivalent to root; or use the process sandbox"
	case errors.Is(err, syscall.ECONNREFUSED):
		p.Reason = "nothing listens at " + d.o.Address
		p.Fix = "start the daemon: systemctl start containerd"
	case ctx.Err() != nil || errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || errors.Is(err, context.DeadlineExceeded):
		p.State = sandbox.Inconclusive
		p.Reason = fmt.Sprintf("the daemon at %s does not answer", d.o.Address)
		p.Fix = "check its log (journalctl -u containerd), and restart it"
	default:
		p.State = sandbox.Inconclusive
		p.Reason = fmt.Sprintf("the daemon at %s: %v", d.o.Address, err)
		p.Fix = "ctr version shows what is wrong with it"
	}
	return p
}

func (d *Driver) unreachable(ctx context.Context, err error) error {
	p := d.refusal(ctx, err)
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s: %s", d.name, p.Reason).WithHint("%s", p.Fix)
}

// explain describes why a container could not be started.
func (d *Driver) explain(ctx context.Context, s sandbox.Spec, err error) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "%s: %w", d.name, err)
	text := err.Error()
	switch {
	case errdefs.IsNotFound(err) && strings.Contains(text, "image"):
		return e.WithHint("%s", d.imageFix(s.Image))
	case strings.Contains(text, "binary not installed"), errors.Is(err, exec.ErrNotFound):
		return e.WithHint("install the runtime in the daemon's PATH")
	case strings.Contains(text, "no space left on device"):
		return e.WithHint("free disk space of the daemon (ctr -n %s images list shows what it keeps) or in %s", d.o.Namespace, os.TempDir())
	case ctx.Err() != nil:
		return e.WithHint("the daemon took too long; check its log (journalctl -u containerd)")
	}
	return e.WithCLIHint("toolroom doctor shows the state of the daemon")
}
