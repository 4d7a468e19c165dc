package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/internal/sandbox/oci"
	"github.com/toolroom/toolroom/sandbox"
)

// facts are what an engine says of itself.
type facts struct {
	version  string
	runtime  string // its default
	runtimes []string
	programs map[string]string // of runtimes: a path, or the name of a shim
	rootless bool
	podman   bool
	holds    map[sandbox.Limit]string
	lacks    map[sandbox.Limit]string
}

func factsOf(i system.Info) facts {
	f := facts{
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

// isPodman says whether it is Podman that answers as Docker does.
func isPodman(v client.ServerVersionResult) bool {
	return slices.ContainsFunc(v.Components, func(c system.ComponentVersion) bool { return c.Name == "Podman Engine" })
}

func (f facts) isolation(runtime string, p sandbox.Profile) string {
	runtime = cmp.Or(runtime, f.runtime, "runc")
	program, known := f.programs[runtime]
	if !known {
		program = runtime // a shim may be named without being registered
	}
	by := oci.Walls("docker", runtime, program, p)
	if f.rootless {
		by = "rootless+" + by
	}
	return by
}

// held are the limits that hold for a container of s.
func (f facts) held(s sandbox.Spec) map[sandbox.Limit]string {
	held := maps.Clone(f.holds)
	if s.Networked() {
		delete(held, sandbox.LimitNetwork)
	}
	if len(s.Egress) == 0 {
		delete(held, sandbox.LimitEgress)
	}
	if s.Profile == sandbox.Dev {
		held[sandbox.LimitDisk] = "size of the tmpfs; the root has no limit"
	}
	return held
}

// probeTimeout is how long an engine may take to say that it is there.
const probeTimeout = 5 * time.Second

// Probe asks the engine what it is, and for the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	ctx, done := context.WithTimeout(ctx, probeTimeout)
	defer done()
	e, err := d.connect(ctx)
	if err != nil {
		return d.refusal(ctx, err)
	}
	p := sandbox.Probe{State: sandbox.Available, Version: e.facts.version, Isolation: e.facts.isolation(d.o.Runtime, sandbox.Standard), Holds: e.facts.holds, Lacks: e.facts.lacks, Images: true, Runtimes: map[string]string{}}
	for _, r := range e.facts.runtimes {
		p.Runtimes[r] = e.facts.isolation(r, sandbox.Standard)
	}
	if r := d.o.Runtime; r != "" && !slices.Contains(e.facts.runtimes, r) && !strings.Contains(r, ".") {
		return sandbox.Probe{
			State: sandbox.Unsupported, Version: p.Version,
			Reason: fmt.Sprintf("the engine has no runtime %s, only %s", r, strings.Join(e.facts.runtimes, ", ")),
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

// refusal says why the engine cannot be used, and what to do about it.
func (d *Driver) refusal(ctx context.Context, err error) sandbox.Probe {
	p := sandbox.Probe{State: sandbox.Unsupported}
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		p.State = sandbox.Inconclusive
		p.Reason = fmt.Sprintf("the engine at %s does not answer", d.o.Host)
		p.Fix = "look at its log (journalctl -u docker), and restart it"
	case errors.Is(err, fs.ErrNotExist):
		p.Reason = "there is no socket " + strings.TrimPrefix(d.o.Host, "unix://")
		p.Fix = "install and start Docker or Podman, or say where it listens: DOCKER_HOST or code.runtimes.docker.host"
	case errors.Is(err, fs.ErrPermission), strings.Contains(err.Error(), "permission denied"): // which the client does not wrap
		p.Reason = "this user may not use " + d.o.Host
		p.Fix = "add the user to the group docker (usermod -aG docker NAME, then log in again), which is as good as root, or run Docker rootless"
	case errors.Is(err, syscall.ECONNREFUSED), client.IsErrConnectionFailed(err):
		p.Reason = "nobody listens at " + d.o.Host
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

// explain says why a container could not be started.
func (d *Driver) explain(s sandbox.Spec, err error) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "docker: %w", err)
	text := err.Error()
	var pull *pullError
	switch {
	case strings.Contains(text, "no space left on device"):
		return e.WithHint("free the disk of the engine: docker system prune")
	case errors.As(err, &pull):
		return e.WithHint("`docker pull %s` shows whether the engine reaches that registry and may pull there; docker load brings an image without one", pull.image)
	case cerrdefs.IsNotFound(err) && strings.Contains(text, "image"):
		return e.WithHint("%s", d.imageFix(s.Image))
	case strings.Contains(text, "bind source path does not exist"):
		return e.WithHint("the engine does not see this machine's files: name one on this machine in code.runtimes.docker.host")
	case strings.Contains(text, "unknown or invalid runtime name"), strings.Contains(text, "Unknown runtime"):
		return e.WithHint("register the runtime with the daemon: dockerd --add-runtime %s=/path", s.Runtime)
	case strings.Contains(text, "network bridge not found"), strings.Contains(text, "network not found"):
		return e.WithHint("the daemon runs without a bridge: use the profile standard, or start it with one")
	}
	return e.WithHint("toolroom doctor shows the state of the engine")
}
