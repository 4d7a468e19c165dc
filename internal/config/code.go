package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Code is the section "code": limits and settings for programs that agents write.
type Code struct {
	// Disabled removes code:execute.
	Disabled bool `yaml:"disabled,omitempty"`
	// Host permits the runtime host, which is not a sandbox.
	Host bool `yaml:"host,omitempty"`
	// Default holds the limits of a program that requests none (30 s, 256 MiB, 10 MiB of
	// output, 100 tool calls). Max holds the maximum that a program may request (10 min, 2
	// GiB, 64 MiB, 10,000).
	Default CodeLimits `yaml:"default,omitempty"`
	Max     CodeLimits `yaml:"max,omitempty"`
	// Parallel is the number of tool calls of one program that may run at once (10).
	Parallel int `yaml:"parallel,omitempty"`
	// Egress adds rules for programs that name hosts to the section "egress" for all.
	Egress Egress `yaml:"egress,omitempty"`
	// Image is the image or root file system of runtimes that need one.
	Image string `yaml:"image,omitempty"`
	// Sessions limits code sessions.
	Sessions CodeSessions `yaml:"sessions,omitempty"`
	// Warm sets by runtime how many sandboxes are started ahead.
	Warm map[string]Warm `yaml:"warm,omitempty"`
	// Runtimes holds the settings of individual runtimes.
	Runtimes Runtimes `yaml:"runtimes,omitempty"`
}

// CodeSessions limits sessions: their number per caller (32), their bytes per caller (512
// MiB) and in total (4 GiB), and how long an idle one is kept (24 h). EntryBytes is the
// maximum size of one session (64 MiB).
type CodeSessions struct {
	Entries    int           `yaml:"entries,omitempty"`
	Bytes      int64         `yaml:"bytes,omitempty"`
	TotalBytes int64         `yaml:"total_bytes,omitempty"`
	EntryBytes int64         `yaml:"entry_bytes,omitempty"`
	Idle       time.Duration `yaml:"idle,omitempty"`
}

// CodeLimits are the limits of one program. Memory, Output and Disk are in bytes.
type CodeLimits struct {
	Timeout time.Duration `yaml:"timeout,omitempty"`
	CPU     time.Duration `yaml:"cpu,omitempty"`
	CPUs    float64       `yaml:"cpus,omitempty"`
	Memory  int64         `yaml:"memory,omitempty"`
	Output  int64         `yaml:"output,omitempty"`
	Calls   int           `yaml:"calls,omitempty"`
	PIDs    int           `yaml:"pids,omitempty"`
	Disk    int64         `yaml:"disk,omitempty"`
}

func (c checker) checkCode(code Code) {
	c.checkCodeLimits(code.Default, code.Max)
	if s := code.Sessions; s.Bytes > 0 && s.EntryBytes > s.Bytes {
		c.addProblem("code.sessions.entry_bytes", fmt.Sprintf("%d is more than bytes, %d", s.EntryBytes, s.Bytes), "")
	}
	if s := code.Sessions; s.TotalBytes > 0 && s.Bytes > s.TotalBytes {
		c.addProblem("code.sessions.bytes", fmt.Sprintf("%d is more than total_bytes, %d", s.Bytes, s.TotalBytes), "")
	}
	c.checkEgressWithoutNetwork("code.egress", code.Egress, "the profile of a sandbox determines its network")
	c.checkWarm(code.Warm, code.Runtimes.Programs)
	c.checkRuntimes(code.Runtimes)
}

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

// checkCodeLimits reports default limits that are larger than those of max, whose defaults are
// those of internal/code.
func (c checker) checkCodeLimits(standard, most CodeLimits) {
	most.Timeout, most.CPU = cmp.Or(most.Timeout, 10*time.Minute), cmp.Or(most.CPU, 10*time.Minute)
	most.Memory, most.Output, most.Disk = cmp.Or(most.Memory, 2<<30), cmp.Or(most.Output, 64<<20), cmp.Or(most.Disk, 4<<30)
	most.Calls, most.PIDs = cmp.Or(most.Calls, 10_000), cmp.Or(most.PIDs, 1024)
	for _, l := range []struct {
		key            string
		standard, most float64
		shown, limit   any
	}{
		{"timeout", float64(standard.Timeout), float64(most.Timeout), standard.Timeout, most.Timeout},
		{"cpu", float64(standard.CPU), float64(most.CPU), standard.CPU, most.CPU},
		{"cpus", standard.CPUs, most.CPUs, standard.CPUs, most.CPUs},
		{"memory", float64(standard.Memory), float64(most.Memory), standard.Memory, most.Memory},
		{"output", float64(standard.Output), float64(most.Output), standard.Output, most.Output},
		{"calls", float64(standard.Calls), float64(most.Calls), standard.Calls, most.Calls},
		{"pids", float64(standard.PIDs), float64(most.PIDs), standard.PIDs, most.PIDs},
		{"disk", float64(standard.Disk), float64(most.Disk), standard.Disk, most.Disk},
	} {
		if l.most > 0 && l.standard > l.most {
			c.addProblem("code.default."+l.key, fmt.Sprintf("%v is more than code.max.%s, %v", l.shown, l.key, l.limit), "")
		}
	}
}
