package config

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroom/toolroom/sandbox"
)

// Sandbox is where the program of a source runs, and what it may see and reach. Without one
// the program has the rights of this user.
type Sandbox struct {
	// Runtime is the sandbox driver: process (the default), docker or another.
	Runtime string `yaml:"runtime,omitempty"`
	// Profile is standard (the default), hardened or dev.
	Profile string `yaml:"profile,omitempty"`
	// Image is the image of runtimes that have one.
	Image string `yaml:"image,omitempty"`
	// Read and Write are folders and files of this machine that the program sees, relative
	// to the config. It may change those in Write.
	Read  []string `yaml:"read,omitempty"`
	Write []string `yaml:"write,omitempty"`
	// Hosts are those that it may reach, over a proxy: host, *.domain, each with an optional
	// :port, addresses and blocks, or * for all that egress permits. Empty means no network.
	Hosts []string `yaml:"hosts,omitempty"`
	// Memory and Disk are in bytes (2 GiB; 1 GiB of temporary files), PIDs counts processes
	// and threads (512).
	Memory int64 `yaml:"memory,omitempty"`
	Disk   int64 `yaml:"disk,omitempty"`
	PIDs   int   `yaml:"pids,omitempty"`
}

// The defaults of [Sandbox].
const (
	defaultSandboxMemory = 2 << 30
	defaultSandboxDisk   = 1 << 30
	defaultSandboxPIDs   = 512
)

// AnyHost is an entry of [Sandbox.Hosts] for all that the section "egress" permits.
const AnyHost = "*"

// RuntimeProcess is the sandbox driver of this machine.
const RuntimeProcess = "process"

// Limits returns the limits of the sandbox, and those that are defaults, which a runtime need
// not enforce wholly.
func (s Sandbox) Limits() (limits sandbox.Limits, defaulted []sandbox.Limit) {
	limits = sandbox.Limits{
		Memory: cmp.Or(s.Memory, defaultSandboxMemory), Disk: cmp.Or(s.Disk, defaultSandboxDisk), PIDs: cmp.Or(s.PIDs, defaultSandboxPIDs),
	}
	if s.Memory == 0 {
		defaulted = append(defaulted, sandbox.LimitMemory)
	}
	if s.Disk == 0 {
		defaulted = append(defaulted, sandbox.LimitDisk)
	}
	if s.PIDs == 0 {
		defaulted = append(defaulted, sandbox.LimitPIDs)
	}
	return limits, defaulted
}

// Describe describes the sandbox in a few words, for example "process, standard".
func (s *Sandbox) Describe() string {
	return cmp.Or(s.Runtime, RuntimeProcess) + ", " + cmp.Or(s.Profile, string(sandbox.Standard))
}

// Program reports whether the source starts a program of this machine.
func (s Source) Program() bool { return s.CLI != nil || s.MCP != nil && s.MCP.Command != "" }

// SandboxText says where the program of the source runs: "none" with the rights of this user.
// It is empty if the source starts none.
func (s Source) SandboxText() string {
	switch {
	case !s.Program():
		return ""
	case s.Sandbox == nil:
		return "none"
	}
	return s.Sandbox.Describe()
}

// checkSandboxRuntime records a mistake if no driver has the name of the runtime, which may be
// followed by a slash and a variant, such as docker/runsc. others are further names.
func (c checker) checkSandboxRuntime(key, runtime string, programs map[string]DriverProgram, others ...string) {
	driver, _, _ := strings.Cut(runtime, "/")
	known := slices.Concat(warmRuntimes, others, slices.Sorted(maps.Keys(programs)))
	if runtime != "" && !slices.Contains(known, driver) {
		c.addProblem(key, "no runtime has the name "+runtime, didYouMean(driver, known))
	}
}

func (c checker) checkSandbox(key string, s Source, programs map[string]DriverProgram) {
	b := s.Sandbox
	if b == nil {
		return
	}
	c.rejectIfSet(key, !s.Program(), "a program, cli or mcp.command")
	c.rejectIfSet(strings.TrimSuffix(key, "sandbox")+"egress.network", s.Egress.Network != "", "programs without a sandbox, whose network is sandbox.hosts")
	if b.Runtime == "host" {
		c.addProblem(key+".runtime", "host is not a sandbox", "remove sandbox, or use process or docker")
	} else {
		c.checkSandboxRuntime(key+".runtime", b.Runtime, programs)
	}
	c.requireOneOfOrEmpty(key+".profile", b.Profile, string(sandbox.Standard), string(sandbox.Hardened), string(sandbox.Dev))
	for _, list := range []struct {
		name  string
		paths []string
	}{{"read", b.Read}, {"write", b.Write}} {
		for i, path := range list.paths {
			at := fmt.Sprintf("%s.%s[%d]", key, list.name, i)
			switch clean := filepath.Clean(path); {
			case path == "":
				c.addProblem(at, "it is empty", "name a folder or file")
			case clean == "/":
				c.addProblem(at, "the whole file system is no sandbox", "name the folders that the program needs")
			case slices.ContainsFunc([]string{"/proc", "/dev", "/sys"}, func(own string) bool { return clean == own || strings.HasPrefix(clean, own+"/") }):
				c.addProblem(at, clean+" is reserved for the sandbox", "remove it")
			}
		}
	}
	for i, host := range b.Hosts {
		if host != AnyHost {
			c.checkEgressEntry(fmt.Sprintf("%s.hosts[%d]", key, i), host)
		}
	}
}
