package config

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/pattern"
	"github.com/toolroom/toolroom/internal/secret"
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

// Kubernetes configures the cluster whose Pods run programs.
type Kubernetes struct {
	// Kubeconfig is the file with the API server's address, and Context selects one of its
	// clusters (default: as kubectl finds them; in a Pod, its own cluster).
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
	Context    string `yaml:"context,omitempty"`
	// Namespace is the namespace of the Pods; empty disables Kubernetes.
	Namespace string `yaml:"namespace,omitempty"`
	// Image is the default image. GuestImage provides the guest if Image does not contain
	// it.
	Image      string `yaml:"image,omitempty"`
	GuestImage string `yaml:"guest_image,omitempty"`
	// Pull is never (the default) or missing.
	Pull string `yaml:"pull,omitempty"`
	// RuntimeClass of the Pods (the cluster's default).
	RuntimeClass string `yaml:"runtime_class,omitempty"`
	// NodeSelector is the label selector of the nodes that may run Pods.
	NodeSelector map[string]string `yaml:"node_selector,omitempty"`
	// Job creates Pods by Jobs, which the cluster itself removes after they end.
	Job bool `yaml:"job,omitempty"`
	// StartTimeout limits the start of a Pod (30 s).
	StartTimeout time.Duration `yaml:"start_timeout,omitempty"`
}

func (c checker) checkKubernetes(path string, k Kubernetes) {
	if k.Namespace == "" && (k.Kubeconfig != "" || k.Context != "" || k.RuntimeClass != "" || k.Job) {
		c.addProblem(path+".namespace", "the namespace for Pods is missing", "create one for programs alone, and name it here")
	}
	if k.Pull != "" && k.Pull != "never" && k.Pull != "missing" {
		c.addProblem(path+".pull", k.Pull+" is not a pull policy", "write never or missing")
	}
	if k.StartTimeout > time.Minute {
		c.addProblem(path+".start_timeout", "it must be at most a minute", "write for example 45s")
	}
}

// Proxmox configures the Proxmox VE whose LXC containers run programs.
type Proxmox struct {
	// URL is https://HOST:8006; empty disables Proxmox. CA is a file with the certificates
	// that must have signed the server's (default: the system's).
	URL string `yaml:"url,omitempty"`
	CA  string `yaml:"ca,omitempty"`
	// Node is the name of the node, and Token a reference to the secret
	// USER@REALM!TOKENID=UUID.
	Node  string `yaml:"node,omitempty"`
	Token string `yaml:"token,omitempty"`
	// Template is the id of the template that each run's container is cloned from into the
	// pool Pool, with copied disks if Full is set. Container, an alternative, is the id of
	// one container for all runs.
	Template  int    `yaml:"template,omitempty"`
	Full      bool   `yaml:"full,omitempty"`
	Pool      string `yaml:"pool,omitempty"`
	Container int    `yaml:"container,omitempty"`
	// Port is the port of the runner in the container (7071), and Runner configures the
	// connection to it, without a URL.
	Port   int    `yaml:"port,omitempty"`
	Runner Remote `yaml:"runner,omitempty"`
}

func (c checker) checkProxmox(path string, p Proxmox) {
	if p == (Proxmox{}) {
		return
	}
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		c.addProblem(path+".url", "the URL of the API is missing", "write https://HOST:8006")
	}
	if p.Node == "" {
		c.addProblem(path+".node", "the name of the node is missing", "see the tree of the web interface, for example pve")
	}
	if _, err := secret.ParseRef(p.Token); err != nil {
		c.addProblem(path+".token", "the API token must be a secret reference", "toolroom secret set proxmox/token, and write secret://proxmox/token")
	}
	if (p.Template == 0) == (p.Container == 0) {
		c.addProblem(path+".template", "exactly one of template and container must be set", "set the id of one of them")
	}
	if p.Port > 65535 {
		c.addProblem(path+".port", "it is not a port", "omit it to use the default, 7071")
	}
	if p.Runner.URL != "" {
		c.addProblem(path+".runner.url", "the address of a container is detected automatically", "remove it")
	}
	c.requireSecretRef(path+".runner.secret", p.Runner.Secret)
}

// Remote configures a runner, which `toolroom runner serve` starts.
type Remote struct {
	// URL is https://HOST:PORT; empty means no runner.
	URL string `yaml:"url,omitempty"`
	// Secret is a reference to one of the secrets in the runner's --secret-file.
	Secret string `yaml:"secret,omitempty"`
	// CA is a file with the certificates that must have signed the runner's (default: the
	// system's). Cert and Key are the files of the client certificate, if the runner
	// requires one.
	CA   string `yaml:"ca,omitempty"`
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name in the runner's certificate, if it differs from the host of
	// URL.
	ServerName string `yaml:"server_name,omitempty"`
	// Plain permits http:// to another machine.
	Plain bool `yaml:"plain,omitempty"`
}

func (c checker) checkRemote(path string, r Remote) {
	if r == (Remote{}) {
		return
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		c.addProblem(path+".url", "the runner's URL must begin with https:// or http://", "write https://HOST:7071")
	}
	c.requireSecretRef(path+".secret", r.Secret)
	if (r.Cert == "") != (r.Key == "") {
		c.addProblem(path+".cert", "cert and key must be set together", "set both cert and key")
	}
}

// requireSecretRef requires a secret reference instead of plaintext.
func (c checker) requireSecretRef(path, value string) {
	if _, err := secret.ParseRef(value); err != nil {
		c.addProblem(path, "a runner's secret must be a secret reference", "toolroom secret set runner/key, and write secret://runner/key")
	}
}

// Temporal configures the Temporal service that runs workflows, and what its workers share.
type Temporal struct {
	// Address is HOST:PORT of its frontend (127.0.0.1:7233).
	Address string `yaml:"address,omitempty"`
	// Namespace is the namespace (default), and Queue the task queue of the workers
	// (toolroom).
	Namespace string `yaml:"namespace,omitempty"`
	Queue     string `yaml:"queue,omitempty"`
	// Secret is a reference to the secret, of at least 32 bytes, with which rooms and
	// workers seal the data that Temporal stores. Without it there are no workflows.
	Secret string `yaml:"secret,omitempty"`
	// CA is a file with the certificates that must have signed the server's; Cert and Key
	// are the files of the client certificate. Without CA and Cert there is no TLS.
	CA   string `yaml:"ca,omitempty"`
	Cert string `yaml:"cert,omitempty"`
	Key  string `yaml:"key,omitempty"`
	// ServerName is the name in the server's certificate, if it differs from the host of
	// Address.
	ServerName string `yaml:"server_name,omitempty"`
}

func (c checker) checkTemporal(path string, t Temporal) {
	if t == (Temporal{}) {
		return
	}
	if t.Address != "" {
		host, port, err := net.SplitHostPort(t.Address)
		if _, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || host == "" || strings.ContainsAny(host, "/ ") {
			c.addProblem(path+".address", quote(t.Address)+" is not host:port", "for example 127.0.0.1:7233, without a scheme")
		}
	}
	c.requireSecretRef(path+".secret", t.Secret)
	if (t.Cert == "") != (t.Key == "") {
		c.addProblem(path+".cert", "cert and key must be set together", "set both cert and key")
	}
}
