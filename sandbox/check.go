package sandbox

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

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
		return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s sandbox cannot show folders of this machine", driver).
			WithHint("use the runtime process, docker, containerd or gvisor, or name no folders")
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
		if reason != "" && slices.Contains(s.Unasked, limit) {
			continue
		}
		if p.Partly[limit] != "" && slices.Contains(s.Unasked, limit) {
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
