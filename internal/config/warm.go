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
	Size *int `yaml:"size,omitempty"`
	// MaxAge is how long one waits before another takes its place (10 min).
	MaxAge time.Duration `yaml:"max_age,omitempty"`
	// Profiles that have sandboxes waiting (standard).
	Profiles []string `yaml:"profiles,omitempty"`
}

// warmRuntimes are the runtimes that may start ahead: all with sandboxes.
var warmRuntimes = []string{"process", "gvisor", "docker", "containerd", "kata", "kubernetes", "microvm", "firecracker", "remote", "proxmox_lxc"}

// WarmSize is how many sandboxes of a runtime wait in each profile.
func (c Code) WarmSize(runtime string) int {
	if size := c.Warm[runtime].Size; size != nil {
		return *size
	}
	if runtime == "process" {
		return 1
	}
	return 0
}

// WarmProfiles are the profiles in which sandboxes of a runtime wait.
func (c Code) WarmProfiles(runtime string) []string {
	if profiles := c.Warm[runtime].Profiles; len(profiles) > 0 {
		return profiles
	}
	return []string{"standard"}
}

// maxWarm bounds a pool: each sandbox holds memory.
const maxWarm = 64

func (c check) warm(pools map[string]Warm) {
	for name, w := range pools {
		at := "code.warm." + name
		if !slices.Contains(warmRuntimes, name) {
			c.problem(at, "there is no runtime of this name that can start ahead", "write one of "+strings.Join(warmRuntimes, ", "))
		}
		if n := w.Size; n != nil && (*n < 0 || *n > maxWarm) {
			c.problem(at+".size", fmt.Sprintf("%d sandboxes cannot wait", *n), fmt.Sprintf("write 0 to %d", maxWarm))
		}
		for _, p := range w.Profiles {
			if p != "dev" && p != "standard" && p != "hardened" {
				c.problem(at+".profiles", p+" is no profile", "write dev, standard or hardened")
			}
		}
	}
}
