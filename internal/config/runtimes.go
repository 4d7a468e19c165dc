package config

// Runtimes is the section "code.runtimes": what sandboxes need to know that are
// not made by this machine alone.
type Runtimes struct {
	Remote  Remote  `yaml:"remote,omitempty"`
	Proxmox Proxmox `yaml:"proxmox_lxc,omitempty"`
}

func (c check) runtimes(r Runtimes) {
	c.remote("code.runtimes.remote", r.Remote)
	c.proxmox("code.runtimes.proxmox_lxc", r.Proxmox)
}
