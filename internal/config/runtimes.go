package config

import (
	"cmp"
	"strings"
)

// Runtimes is the section "code.runtimes": what sandboxes need to know that are
// not made by this machine alone. Image is code.image where it is empty.
type Runtimes struct {
	Docker Docker `yaml:"docker,omitempty"`
}

// Docker says where the Docker engine or Podman is.
type Docker struct {
	// Host is unix:///path or tcp://host:port (DOCKER_HOST, and then
	// unix:///var/run/docker.sock).
	Host string `yaml:"host,omitempty"`
	// Image is the default image, best with its digest.
	Image string `yaml:"image,omitempty"`
	// Pull is never (the default) or missing.
	Pull string `yaml:"pull,omitempty"`
	// Runtime is the engine's runtime, for example runsc (the engine's default).
	Runtime string `yaml:"runtime,omitempty"`
}

// WithImages gives the runtimes with their images filled in.
func (c Code) WithImages() Runtimes {
	r := c.Runtimes
	r.Docker.Image = cmp.Or(r.Docker.Image, c.Image)
	return r
}

func (c check) runtimes(r Runtimes) {
	if host := r.Docker.Host; host != "" && !strings.HasPrefix(host, "unix://") && !strings.HasPrefix(host, "tcp://") {
		c.problem("code.runtimes.docker.host", "only unix:// and tcp:// are known", "over SSH, forward the socket: ssh -L /path/docker.sock:/var/run/docker.sock HOST")
	}
	if pull := r.Docker.Pull; pull != "" && pull != "never" && pull != "missing" {
		c.problem("code.runtimes.docker.pull", pull+" is no policy", "write never or missing")
	}
}
