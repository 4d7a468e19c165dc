package config

import (
	"net/url"

	"github.com/toolroom/toolroom/internal/secret"
)

// Proxmox says where a Proxmox VE is, in whose LXC containers programs run.
type Proxmox struct {
	// URL is https://HOST:8006; empty is none. CA is a file with the certificates
	// that its certificate must be signed by (the system's).
	URL string `yaml:"url,omitempty"`
	CA  string `yaml:"ca,omitempty"`
	// Node is the name of the node, Token a reference to the secret
	// USER@REALM!TOKENID=UUID.
	Node  string `yaml:"node,omitempty"`
	Token string `yaml:"token,omitempty"`
	// Template is the id of the template that each run's container is cloned
	// from, with its disks copied if Full, into the pool Pool. Container, in its
	// place, is the id of one container for all runs.
	Template  int    `yaml:"template,omitempty"`
	Full      bool   `yaml:"full,omitempty"`
	Pool      string `yaml:"pool,omitempty"`
	Container int    `yaml:"container,omitempty"`
	// Port is that of the runner inside (7071), and Runner how it is spoken to,
	// without a URL.
	Port   int    `yaml:"port,omitempty"`
	Runner Remote `yaml:"runner,omitempty"`
}

func (c check) proxmox(path string, p Proxmox) {
	if p == (Proxmox{}) {
		return
	}
	if u, err := url.Parse(p.URL); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		c.problem(path+".url", "the API has a URL", "write https://HOST:8006")
	}
	if p.Node == "" {
		c.problem(path+".node", "the name of the node is missing", "the tree of the web interface shows it, for example pve")
	}
	if _, err := secret.ParseRef(p.Token); err != nil {
		c.problem(path+".token", "the API token is a reference to a secret", "toolroom secret set proxmox/token, and write secret://proxmox/token")
	}
	if (p.Template == 0) == (p.Container == 0) || p.Template < 0 || p.Container < 0 {
		c.problem(path+".template", "runs have a template to clone or one container, not both", "give the id of one: template or container")
	}
	if p.Port < 0 || p.Port > 65535 {
		c.problem(path+".port", "it is no port", "leave it out for the default, 7071")
	}
	if p.Runner.URL != "" {
		c.problem(path+".runner.url", "the address of a container is found out", "leave it out")
	}
	c.runnerSecret(path+".runner.secret", p.Runner.Secret)
}
