package config

import (
	"net/url"

	"github.com/toolroom/toolroom/internal/secret"
)

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
