package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Warm is what one runtime starts ahead while Toolroom serves.
type Warm struct {
	// Size is how many sandboxes wait in each profile (process: 1, others: 0).
	// Negative is none.
	Size int `yaml:"size,omitempty"`
	// MaxAge is how long one waits before another takes its place (10 min).
	MaxAge time.Duration `yaml:"max_age,omitempty"`
	// Profiles that have sandboxes waiting (standard).
	Profiles []string `yaml:"profiles,omitempty"`
}

// warmRuntimes are the runtimes that may start ahead: all with sandboxes.
var warmRuntimes = []string{"process", "gvisor", "docker", "containerd", "kata", "kubernetes", "microvm", "firecracker", "remote", "proxmox_lxc"}

// WarmOf is what a runtime starts ahead, with the defaults filled in.
func (c Code) WarmOf(runtime string) Warm {
	w := c.Warm[runtime]
	if w.Size == 0 && runtime == "process" {
		w.Size = 1
	}
	w.Size = max(w.Size, 0)
	if len(w.Profiles) == 0 {
		w.Profiles = []string{"standard"}
	}
	return w
}

// maxWarm bounds a pool: each sandbox holds memory.
const maxWarm = 64

func (c check) warm(pools map[string]Warm) {
	for name, w := range pools {
		at := "code.warm." + name
		if !slices.Contains(warmRuntimes, name) {
			c.problem(at, "there is no runtime of this name that can start ahead", "write one of "+strings.Join(warmRuntimes, ", "))
		}
		if w.Size > maxWarm {
			c.problem(at+".size", fmt.Sprintf("%d sandboxes that wait are too many", w.Size), fmt.Sprintf("write %d at most", maxWarm))
		}
		if w.MaxAge < 0 {
			c.problem(at+".max_age", "it is negative", "leave it out for the default, 10m")
		}
		for _, p := range w.Profiles {
			if p != "dev" && p != "standard" && p != "hardened" {
				c.problem(at+".profiles", p+" is no profile", "write dev, standard or hardened")
			}
		}
	}
}
