package config

import (
	"fmt"
	"time"
)

// Code is the section "code": what programs may do that agents write.
type Code struct {
	// Disabled takes code:execute away.
	Disabled bool `yaml:"disabled,omitempty"`
	// Host permits the runtime host, which is no sandbox.
	Host bool `yaml:"host,omitempty"`
	// Default is what a program gets that asks for nothing (30 s, 256 MiB,
	// 10 MiB of output, 100 tool calls), Max the most that it may ask for
	// (10 min, 2 GiB, 64 MiB, 10,000).
	Default CodeLimits `yaml:"default,omitempty"`
	Max     CodeLimits `yaml:"max,omitempty"`
	// Parallel is how many tool calls of one program may run at once (10).
	Parallel int `yaml:"parallel,omitempty"`
	// Egress is for the connections of programs that name hosts, beside the section
	// for all.
	Egress Egress `yaml:"egress,omitempty"`
	// Image is the image or root file system of runtimes that need one.
	Image string `yaml:"image,omitempty"`
	// Sessions bounds what programs leave behind for one another.
	Sessions CodeSessions `yaml:"sessions,omitempty"`
	// Warm says of runtimes, by their names, what they start ahead.
	Warm map[string]Warm `yaml:"warm,omitempty"`
	// Runtimes are the settings of single runtimes.
	Runtimes Runtimes `yaml:"runtimes,omitempty"`
}

// CodeSessions bounds sessions: how many one caller may have (32), the bytes of
// one caller's (512 MiB) and of all (4 GiB), and how long an idle one is kept
// (24 h). EntryBytes is how many bytes one session may take (64 MiB).
type CodeSessions struct {
	Entries    int           `yaml:"entries,omitempty"`
	Bytes      int64         `yaml:"bytes,omitempty"`
	TotalBytes int64         `yaml:"total_bytes,omitempty"`
	EntryBytes int64         `yaml:"entry_bytes,omitempty"`
	Idle       time.Duration `yaml:"idle,omitempty"`
}

// CodeLimits bound one program. Memory, Output and Disk are bytes.
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

func (c check) code(code Code) {
	for name, l := range map[string]CodeLimits{"code.default": code.Default, "code.max": code.Max} {
		for key, n := range map[string]int64{
			"timeout": int64(l.Timeout), "cpu": int64(l.CPU), "memory": l.Memory, "output": l.Output,
			"calls": int64(l.Calls), "pids": int64(l.PIDs), "disk": l.Disk,
		} {
			if n < 0 {
				c.problem(name+"."+key, fmt.Sprintf("%d is negative", n), "leave it out for the default")
			}
		}
		if l.CPUs < 0 {
			c.problem(name+".cpus", fmt.Sprintf("%v is negative", l.CPUs), "leave it out for any number")
		}
	}
	for key, n := range map[string]int64{
		"entries": int64(code.Sessions.Entries), "bytes": code.Sessions.Bytes,
		"total_bytes": code.Sessions.TotalBytes, "entry_bytes": code.Sessions.EntryBytes, "idle": int64(code.Sessions.Idle),
	} {
		if n < 0 {
			c.problem("code.sessions."+key, fmt.Sprintf("%d is negative", n), "leave it out for the default")
		}
	}
	if code.Parallel < 0 {
		c.problem("code.parallel", fmt.Sprintf("%d is negative", code.Parallel), "leave it out for the default, 10")
	}
	c.egress("code.egress", code.Egress)
	if code.Egress.Network != "" {
		c.problem("code.egress.network", "it is for programs of sources", "leave it out: a sandbox has what its profile says")
	}
	c.warm(code.Warm)
	c.runtimes(code.Runtimes)
}
