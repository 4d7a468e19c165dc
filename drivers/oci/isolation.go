package oci

import (
	"path"
	"slices"
	"strings"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/sandbox"
)

// Isolation returns the isolation layers of a guest that engine runs under a runtime,
// given by its name and its program: each is a name, a path, or a shim such as
// io.containerd.kata.v2. Only program determines the layers, because any runtime may be
// registered under the name runsc. See [sandbox.Sandbox.Isolation].
func Isolation(engine, name, program string, p sandbox.Profile) string {
	layers := engine + "(" + shortRuntimeName(name) + ")"
	switch shortRuntimeName(program) {
	case "runsc":
		layers = engine + "+gvisor(" + shortRuntimeName(name) + ")"
	case "kata", "kata-runtime":
		layers = engine + "+kata"
	}
	if p != sandbox.Dev {
		layers += "+seccomp" // the guest's own filter
	}
	return layers
}

// DevLacks returns the limits that containers do not hold in the profile dev.
func DevLacks() map[sandbox.Limit]string {
	return map[sandbox.Limit]string{sandbox.LimitDisk: "the root is writable and on the engine's disk"}
}

// GVisorPIDs describes how gVisor enforces a limit of processes.
const GVisorPIDs = "gVisor counts the threads of the host machine that it uses: those of the program that sleep have none"

// GVisorPartly describes the part of that limit that gVisor enforces.
const GVisorPartly = "cgroup, for threads that do not sleep, gVisor's own included"

// CheckGVisor returns an error if a run under gVisor asks for a limit that gVisor does not
// enforce. A default limit is enforced as far as possible.
func CheckGVisor(driver string, s sandbox.Spec) error {
	if s.Limits.PIDs == 0 || s.BestEffort || slices.Contains(s.Defaulted, sandbox.LimitPIDs) {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeLimitNotEnforceable, "%s cannot enforce a limit of %d processes here: %s", driver, s.Limits.PIDs, GVisorPIDs).
		WithHint("choose another runtime, or accept best effort")
}

// shortRuntimeName returns a runtime's usual name: io.containerd.runc.v2 is runc.
func shortRuntimeName(runtime string) string {
	name := path.Base(runtime)
	if shim, ok := strings.CutPrefix(name, "io.containerd."); ok {
		return strings.TrimSuffix(shim, path.Ext(shim))
	}
	return name
}
