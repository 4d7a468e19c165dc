package config

import (
	"cmp"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/internal/pattern"
)

// Runtimes is the section "code.runtimes": settings of sandboxes that this machine does not
// provide by itself. An empty Image means code.image.
type Runtimes struct {
	Docker     Docker     `yaml:"docker,omitempty"`
	Containerd Containerd `yaml:"containerd,omitempty"`
	Kata       Containerd `yaml:"kata,omitempty"`
	GVisor     GVisor     `yaml:"gvisor,omitempty"`
	Kubernetes Kubernetes `yaml:"kubernetes,omitempty"`
	Remote     Remote     `yaml:"remote,omitempty"`
	Proxmox    Proxmox    `yaml:"proxmox_lxc,omitempty"`
	Temporal   Temporal   `yaml:"temporal,omitempty"`
	// Runner is toolroom-runner, the program with the drivers of foreign engines, as a path
	// or a name in PATH (default: the one beside toolroom, or else in PATH).
	Runner string `yaml:"runner,omitempty"`
	// Programs are further programs with a sandbox driver, by the driver's name.
	Programs map[string]DriverProgram `yaml:"programs,omitempty"`
}

// DriverProgram is a program with a sandbox driver; see docs/runner.md.
type DriverProgram struct {
	// Command is a path or a name in PATH.
	Command string            `yaml:"command,omitempty"`
	Args    []string          `yaml:"args,omitempty"`
	Env     map[string]string `yaml:"env,omitempty"`
	// Settings are sent to the driver.
	Settings map[string]any `yaml:"settings,omitempty"`
}

// Docker configures the Docker engine or Podman.
type Docker struct {
	// Host is unix:///path or tcp://host:port (default: DOCKER_HOST, and then
	// unix:///var/run/docker.sock).
	Host string `yaml:"host,omitempty"`
	// Image is the default image, preferably with its digest.
	Image string `yaml:"image,omitempty"`
	// Pull is never (the default) or missing.
	Pull string `yaml:"pull,omitempty"`
	// Runtime is the engine's runtime, for example runsc (the engine's default).
	Runtime string `yaml:"runtime,omitempty"`
}

// Containerd configures containerd.
type Containerd struct {
	// Address of its socket (/run/containerd/containerd.sock).
	Address string `yaml:"address,omitempty"`
	// Namespace for images and containers (toolroom).
	Namespace string `yaml:"namespace,omitempty"`
	// Snapshotter (the daemon's default).
	Snapshotter string `yaml:"snapshotter,omitempty"`
	// Image is the default image.
	Image string `yaml:"image,omitempty"`
	// Runtime is runc (the default), runsc, or the name of a shim; kata uses its own.
	Runtime string `yaml:"runtime,omitempty"`
}

// GVisor configures runsc.
type GVisor struct {
	// Program is the path of runsc (default: the one in the PATH).
	Program string `yaml:"program,omitempty"`
	// Platform is systrap (the default), ptrace or kvm.
	Platform string `yaml:"platform,omitempty"`
	// Root is the folder of a root file system (default: the programs of this machine).
	Root string `yaml:"root,omitempty"`
	// Restore starts sandboxes from a checkpoint in which Python is loaded (false).
	Restore bool `yaml:"restore,omitempty"`
}

// WithImages returns the runtimes with their images filled in.
func (c Code) WithImages() Runtimes {
	r := c.Runtimes
	r.Docker.Image = cmp.Or(r.Docker.Image, c.Image)
	r.Containerd.Image = cmp.Or(r.Containerd.Image, c.Image)
	r.Kata.Image = cmp.Or(r.Kata.Image, c.Image)
	r.Kubernetes.Image = cmp.Or(r.Kubernetes.Image, c.Image)
	return r
}

func (c checker) checkRuntimes(r Runtimes) {
	if host := r.Docker.Host; host != "" && !strings.HasPrefix(host, "unix://") && !strings.HasPrefix(host, "tcp://") {
		c.addProblem("code.runtimes.docker.host", "it must begin with unix:// or tcp://", "over SSH, forward the socket: ssh -L /path/docker.sock:/var/run/docker.sock HOST")
	}
	if pull := r.Docker.Pull; pull != "" && pull != "never" && pull != "missing" {
		c.addProblem("code.runtimes.docker.pull", pull+" is not a pull policy", "write never or missing")
	}
	if r.Kata.Runtime != "" {
		c.addProblem("code.runtimes.kata.runtime", "kata uses its own runtime", "remove it, or set code.runtimes.containerd.runtime")
	}
	if p := r.GVisor.Platform; p != "" && p != "systrap" && p != "ptrace" && p != "kvm" {
		c.addProblem("code.runtimes.gvisor.platform", p+" is not a platform of gVisor", "write systrap, ptrace or kvm")
	}
	c.checkKubernetes("code.runtimes.kubernetes", r.Kubernetes)
	c.checkRemote("code.runtimes.remote", r.Remote)
	c.checkProxmox("code.runtimes.proxmox_lxc", r.Proxmox)
	c.checkTemporal("code.runtimes.temporal", r.Temporal)
	for name, p := range r.Programs {
		at := "code.runtimes.programs." + name
		if !driverName().MatchString(name) || slices.Contains(reservedDriverNames, name) {
			c.addProblem(at, name+" cannot be the name of a driver", "use small letters, digits, - and _, and no name of a runtime or engine of Toolroom")
		}
		if p.Command == "" {
			c.addProblem(at+".command", "the program is missing", "write its path, or its name in PATH")
		}
	}
}

// driverName matches the names of drivers, which are parts of paths in URLs.
var driverName = pattern.Lazy(`^[a-z][a-z0-9_-]{0,63}$`)

// reservedDriverNames are the names of engines and runtimes that are not programs of the config.
var reservedDriverNames = slices.Concat(warmRuntimes, []string{"auto", "host", "wasm", "js", "py", "py-lite", "py-native", "pyodide", "temporal"})
