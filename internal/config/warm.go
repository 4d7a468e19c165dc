package config

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Warm configures the sandboxes that one runtime starts ahead while Toolroom serves.
type Warm struct {
	// Size is the number of idle sandboxes for each profile (process: 1, others: 0).
	Size *int `yaml:"size,omitempty"`
	// MaxAge is how long a sandbox stays idle before it is replaced (10 min).
	MaxAge time.Duration `yaml:"max_age,omitempty"`
	// Profiles lists the profiles that have idle sandboxes (standard).
	Profiles []string `yaml:"profiles,omitempty"`
}

// warmRuntimes are the runtimes that can start sandboxes ahead: all that have sandboxes.
var warmRuntimes = []string{"process", "gvisor", "docker", "containerd", "kata", "kubernetes", "microvm", "firecracker", "remote", "proxmox_lxc"}

// WarmSize returns the number of idle sandboxes of a runtime for each profile.
func (c Code) WarmSize(runtime string) int {
	if size := c.Warm[runtime].Size; size != nil {
		return *size
	}
	if runtime == "process" {
		return 1
	}
	return 0
}

// WarmProfiles returns the profiles for which a runtime has idle sandboxes.
func (c Code) WarmProfiles(runtime string) []string {
	if profiles := c.Warm[runtime].Profiles; len(profiles) > 0 {
		return profiles
	}
	return []string{"standard"}
}

// maxWarm limits a pool, because each sandbox uses memory.
const maxWarm = 64

func (c checker) checkWarm(pools map[string]Warm, programs map[string]DriverProgram) {
	for name, w := range pools {
		at := "code.warm." + name
		if _, named := programs[name]; !named && !slices.Contains(warmRuntimes, name) {
			c.addProblem(at, "no runtime of this name can start sandboxes ahead", didYouMean(name, slices.Concat(warmRuntimes, slices.Sorted(maps.Keys(programs)))))
		}
		if n := w.Size; n != nil && *n > maxWarm {
			c.addProblem(at+".size", fmt.Sprintf("%d is not a pool size", *n), fmt.Sprintf("write 0 to %d", maxWarm))
		}
		for _, p := range w.Profiles {
			if p != "dev" && p != "standard" && p != "hardened" {
				c.addProblem(at+".profiles", p+" is not a profile", "write dev, standard or hardened")
			}
		}
	}
}
