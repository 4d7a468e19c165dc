package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
)

// Check tells whether a driver that probed as p can run s as asked. A limit
// that it cannot hold is an error with code limit_not_enforceable, before
// anything has run, unless s accepts best effort, or the driver holds a part of
// what nobody asked for. A negative limit, and an image or a runtime where the
// driver has no choice of them, are invalid_arguments; a driver that is not available is sandbox_unavailable.
func Check(driver string, p Probe, s Spec) error {
	if p.State != Available {
		return unavailable(driver, p)
	}
	if l := s.Limits; l.Wall < 0 || l.CPU < 0 || l.CPUs < 0 || l.Memory < 0 || l.PIDs < 0 || l.Disk < 0 {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "a limit cannot be negative: %+v", l).
			WithHint("leave a limit out, or give 0, for its default")
	}
	if s.Runtime != "" && p.Runtimes == nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s has no runtimes below it: there is no %s/%s", driver, driver, s.Runtime).
			WithHint("name %s alone, or docker/RUNTIME or containerd/RUNTIME", driver)
	}
	if s.Image != "" && !p.Images {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s takes no image from a run, and this one names %s", driver, s.Image).
			WithHint("leave the image out, or choose docker, containerd or kubernetes")
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
		if _, held := p.Holds[limit]; held || limit == LimitWall { // the runner holds the wall time
			continue
		}
		if p.Partly[limit] != "" && slices.Contains(s.Unasked, limit) {
			continue
		}
		reason := p.Lacks[limit]
		if reason == "" && limit == LimitEgress {
			reason = "it cannot keep to a list of hosts"
		}
		if reason == "" {
			reason = "not supported"
		}
		missing = append(missing, fmt.Sprintf("%s (%s)", limit, reason))
	}
	if len(missing) == 0 {
		return nil
	}
	e := toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "the %s sandbox cannot hold these limits here: %s", driver, strings.Join(missing, ", "))
	return e.WithHint("choose another runtime (toolroom doctor shows what each holds), or accept best effort")
}

func unavailable(driver string, p Probe) error {
	e := toolroom.Errorf(toolroom.CodeSandboxUnavailable, "the %s sandbox is not available here: %s", driver, p.Reason)
	if p.Fix != "" {
		e = e.WithHint("%s", p.Fix)
	}
	return e
}
