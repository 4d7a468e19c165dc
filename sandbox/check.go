package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// noFolders says why a driver cannot show folders of this machine, and what to do.
func noFolders(driver string) (why, fix string) {
	const here = "use the runtime process, docker, containerd or gvisor, or name no folders"
	const image = "put the files into the image that it runs, or use the runtime process, docker, containerd or gvisor of this machine"
	switch name, _, _ := strings.Cut(driver, "/"); name {
	case "docker":
		return "its daemon runs on another machine", "use a daemon of this machine, or the runtime process"
	case "gvisor":
		return "without root its guests cannot be the user whose files they are", "start toolroom as root, or use the runtime process"
	case "kata":
		return "Kata shares folders with a virtual machine, whose kernel would not hold the rules about files that Toolroom enforces", here
	case "microvm", "firecracker":
		return "its virtual machine has disks, and shares no file system with this machine", here
	case "kubernetes":
		return "its pods run on the nodes of a cluster", image
	case "proxmox_lxc":
		return "its containers run on a Proxmox host", "put the files into the template that it clones, or use the runtime process, docker, containerd or gvisor of this machine"
	case "remote", "temporal":
		return "its runner is another machine", "run toolroom serve on that machine with the runtime process, and add it here as an MCP server by its URL"
	}
	return "it has no way to show them", here
}

// Check reports whether a driver whose probe returned p can run s. It returns an
// error with code limit_not_enforceable if the driver cannot enforce a limit,
// unless s accepts best effort, or the limit is a default that the driver enforces
// partly. A negative limit, and an image or a runtime that the driver does not
// support, are invalid_arguments. An unavailable driver is sandbox_unavailable.
func Check(driver string, p Probe, s Spec) error {
	if p.State != Available {
		return unavailable(driver, p)
	}
	if l := s.Limits; l.Wall < 0 || l.CPU < 0 || l.CPUs < 0 || l.Memory < 0 || l.PIDs < 0 || l.Disk < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit cannot be negative: %+v", l).
			WithHint("leave a limit out, or use 0, for its default")
	}
	if s.Runtime != "" && p.Runtimes == nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has no choice of runtimes: %s/%s does not exist", driver, driver, s.Runtime).
			WithHint("use %s alone, or docker/RUNTIME or containerd/RUNTIME", driver)
	}
	if s.Image != "" && !p.Images {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a run cannot choose an image under %s, and this one chooses %s", driver, s.Image).
			WithHint("remove the image, or choose docker, containerd or kubernetes")
	}
	if s.Layer != "" && !p.Layers {
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s sandbox cannot show packages to a program", driver).
			WithHint("use the runtime process")
	}
	if len(s.Folders) > 0 && !p.Folders {
		why, fix := noFolders(driver)
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s sandbox cannot show folders of this machine: %s", driver, why).
			WithHint("%s", fix)
	}
	asked := s.Limits.Asked()
	if !s.Networked() {
		asked = append(asked, LimitNetwork)
	}
	if len(s.Egress) > 0 {
		asked = append(asked, LimitEgress)
	}
	if s.BestEffort {
		return nil
	}
	var missing []string
	for _, limit := range asked {
		reason := ""
		if s.Profile == Dev {
			reason = p.DevLacks[limit]
		}
		if _, held := p.Holds[limit]; reason == "" && held || limit == LimitWall { // the engine enforces the wall time
			continue
		}
		if reason != "" && slices.Contains(s.Defaulted, limit) {
			continue
		}
		if p.Partly[limit] != "" && slices.Contains(s.Defaulted, limit) {
			continue
		}
		reason = cmp.Or(reason, p.Lacks[limit])
		if reason == "" && limit == LimitEgress {
			reason = "it cannot limit the network to a list of hosts"
		}
		if reason == "" {
			reason = "not supported"
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", limit, reason))
	}
	if len(missing) == 0 {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s sandbox cannot enforce these limits here: %s", driver, strings.Join(missing, ", "))
	return e.WithHint("choose another runtime, or accept best effort").WithCLIHint("toolroom doctor shows the limits that each runtime enforces")
}

func unavailable(driver string, p Probe) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the %s sandbox is not available here: %s", driver, p.Reason)
	if p.Fix != "" {
		e = e.WithHint("%s", p.Fix)
	}
	return e
}
