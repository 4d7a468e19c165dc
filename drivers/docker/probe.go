package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/sandbox"
)

// engineInfo is an engine's description of itself.
type engineInfo struct {
	version  string
	runtime  string // the default
	runtimes []string
	programs map[string]string // runtime → path, or name of a shim
	rootless bool
	podman   bool
	holds    map[sandbox.Limit]string
	lacks    map[sandbox.Limit]string
}

func engineInfoOf(i system.Info) engineInfo {
	f := engineInfo{
		version: i.ServerVersion, runtime: i.DefaultRuntime, runtimes: slices.Sorted(maps.Keys(i.Runtimes)),
		rootless: slices.Contains(i.SecurityOptions, "name=rootless"),
		holds: map[sandbox.Limit]string{
			sandbox.LimitWall:    "removal of the container",
			sandbox.LimitDisk:    "size of the tmpfs",
			sandbox.LimitNetwork: "network none",
			sandbox.LimitEgress:  sandbox.OverStream,
		},
		lacks:    map[sandbox.Limit]string{},
		programs: map[string]string{},
	}
	for name, r := range i.Runtimes {
		f.programs[name] = cmp.Or(r.Type, r.Path)
	}
	cgroup := "cgroup v" + i.CgroupVersion
	if i.CgroupVersion == "" {
		cgroup = "cgroup v1"
	}
	for _, l := range []struct {
		limit sandbox.Limit
		held  bool
		by    string
	}{
		{sandbox.LimitMemory, i.MemoryLimit, cgroup},
		{sandbox.LimitPIDs, i.PidsLimit, cgroup},
		{sandbox.LimitCPU, i.CPUCfsQuota, cgroup + " quota, RLIMIT_CPU of each process"},
	} {
		if l.held {
			f.holds[l.limit] = l.by
		} else {
			f.lacks[l.limit] = "the engine has no such cgroup controller"
		}
	}
	return f
}

// isPodman reports whether the engine is Podman, which answers like Docker.
func isPodman(v client.ServerVersionResult) bool {
	return slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" })
}

func (f engineInfo) isolation(runtime string, p sandbox.Profile) string {
	runtime = cmp.Or(runtime, f.runtime, "runc")
	program, known := f.programs[runtime]
	if !known {
		program = runtime // a shim need not be registered
	}
	by := oci.Isolation("docker", runtime, program, p)
	if f.rootless {
		by = "rootless+" + by
	}
	return by
}

func (f engineInfo) isGVisor(runtime string) bool {
	return strings.Contains(f.isolation(runtime, sandbox.Dev), "gvisor(")
}

// held returns the limits that are enforced for a container of s.
func (f engineInfo) held(s sandbox.Spec) map[sandbox.Limit]string {
	held := maps.Clone(f.holds)
	if s.Networked() {
		delete(held, sandbox.LimitNetwork)
	}
	if len(s.Egress) == 0 {
		delete(held, sandbox.LimitEgress)
	}
	if f.isGVisor(s.Runtime) {
		delete(held, sandbox.LimitPIDs)
	}
	if s.Profile == sandbox.Dev {
		delete(held, sandbox.LimitDisk)
	}
	return held
}

// isLocal reports whether the engine at an address runs on this machine. Another one would look
// for folders of this machine on its own.
func isLocal(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	if u.Scheme == "unix" || u.Scheme == "npipe" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// probeTimeout bounds the time in which an engine must answer.
const probeTimeout = 5 * time.Second

// Probe asks the engine for its description and for the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	ctx, done := context.WithTimeout(ctx, probeTimeout)
	defer done()
	e, err := d.connect(ctx)
	if err != nil {
		return d.refusal(ctx, err)
	}
	p := sandbox.Probe{State: sandbox.Available, Version: e.info.version, Isolation: e.info.isolation(d.o.Runtime, sandbox.Standard), Holds: e.info.holds, Lacks: e.info.lacks, DevLacks: oci.DevLacks(), Images: true, Folders: isLocal(e.DaemonHost()), Runtimes: map[string]string{}}
	if e.info.isGVisor(d.o.Runtime) {
		p.Holds, p.Lacks = maps.Clone(p.Holds), maps.Clone(p.Lacks)
		delete(p.Holds, sandbox.LimitPIDs)
		p.Lacks[sandbox.LimitPIDs] = oci.GVisorPIDs
		p.Partly = map[sandbox.Limit]string{sandbox.LimitPIDs: oci.GVisorPartly}
	}
	for _, r := range e.info.runtimes {
		p.Runtimes[r] = e.info.isolation(r, sandbox.Standard)
	}
	if r := d.o.Runtime; r != "" && !slices.Contains(e.info.runtimes, r) && !strings.Contains(r, ".") {
		return sandbox.Probe{
			State: sandbox.Unsupported, Version: p.Version,
			Reason: fmt.Sprintf("the engine has no runtime %s, only %s", r, strings.Join(e.info.runtimes, ", ")),
			Fix:    "register it with the daemon (dockerd --add-runtime " + r + "=/path), or change code.runtimes.docker.runtime",
		}
	}
	found, err := e.ImageInspect(ctx, d.o.Image)
	switch {
	case err == nil && found.Config != nil:
		if languages := found.Config.Labels[image.LanguagesLabel]; languages != "" {
			p.Languages = strings.Split(languages, ",")
		}
	case cerrdefs.IsNotFound(err) && d.pulls(d.o.Image):
	case cerrdefs.IsNotFound(err):
		return sandbox.Probe{
			State: sandbox.Unsupported, Version: p.Version, Reason: "the engine has no image " + d.o.Image, Fix: d.imageFix(d.o.Image),
		}
	case err != nil:
		return d.refusal(ctx, err)
	}
	return p
}

func (d *Driver) imageFix(name string) string {
	if name == image.Name {
		return "toolroom image build --docker makes it"
	}
	return "docker pull " + name + ", or set code.runtimes.docker.pull to missing"
}

// refusal describes why the engine cannot be used, and what to do about it.
func (d *Driver) refusal(ctx context.Context, err error) sandbox.Probe {
	p := sandbox.Probe{State: sandbox.Unsupported}
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		p.State = sandbox.Inconclusive
		p.Reason = fmt.Sprintf("the engine at %s does not answer", d.o.Host)
		p.Fix = "check its log (journalctl -u docker), and restart it"
	case errors.Is(err, fs.ErrNotExist):
		p.Reason = "there is no socket " + strings.TrimPrefix(d.o.Host, "unix://")
		p.Fix = "install and start Docker or Podman, or set its address: DOCKER_HOST or code.runtimes.docker.host"
	case errors.Is(err, fs.ErrPermission), strings.Contains(err.Error(), "permission denied"): // the client does not wrap it
		p.Reason = "this user may not use " + d.o.Host
		p.Fix = "add the user to the group docker (usermod -aG docker NAME, then log in again), which is as good as root, or run Docker rootless"
	case errors.Is(err, syscall.ECONNREFUSED), client.IsErrConnectionFailed(err):
		p.Reason = "nothing listens at " + d.o.Host
		p.Fix = "start the daemon: systemctl start docker"
	default:
		p.State = sandbox.Inconclusive
		p.Reason = fmt.Sprintf("the engine at %s: %v", d.o.Host, err)
		p.Fix = "docker info shows what is wrong with it"
	}
	return p
}

func (d *Driver) unreachable(ctx context.Context, err error) error {
	p := d.refusal(ctx, err)
	return toolroom.Errorf(toolroom.CodeSandboxUnavailable, "docker: %s", p.Reason).WithHint("%s", p.Fix)
}

// explain describes why a container could not be started.
func (d *Driver) explain(s sandbox.Spec, err error) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "docker: %w", err)
	text := err.Error()
	var pull *pullError
	switch {
	case strings.Contains(text, "no space left on device"):
		return e.WithHint("free disk space of the engine: docker system prune")
	case errors.As(err, &pull):
		return e.WithHint("check with `docker pull %s` whether the engine reaches the registry and may pull there; docker load adds an image without a registry", pull.image)
	case cerrdefs.IsNotFound(err) && strings.Contains(text, "image"):
		return e.WithHint("%s", d.imageFix(s.Image))
	case strings.Contains(text, "bind source path does not exist"):
		return e.WithHint("the engine does not see this machine's files: set code.runtimes.docker.host to an engine on this machine")
	case strings.Contains(text, "unknown or invalid runtime name"), strings.Contains(text, "Unknown runtime"):
		return e.WithHint("register the runtime with the daemon: dockerd --add-runtime %s=/path", s.Runtime)
	case strings.Contains(text, "network bridge not found"), strings.Contains(text, "network not found"):
		return e.WithHint("the daemon runs without a bridge network: use the profile standard, or start it with one")
	}
	return e.WithCLIHint("toolroom doctor shows the state of the engine")
}
