// Package guest is the side of the bridge that lives inside a sandbox: it
// receives a program, runs it with the interpreter at hand, relays what the
// program asks to the host, and reports how it ended. It is what the binary
// toolroom-guest does, and serves one run per process.
package guest

import "github.com/toolroom/toolroom/sandbox"

// Environment variables by which a driver tells a guest what it must know.
const (
	// TokenEnv is the token of its hello, in hex; the guest removes it from its
	// environment at once.
	TokenEnv = "TOOLROOM_BRIDGE_TOKEN"
	// WorkEnv is the folder in which programs run.
	WorkEnv = "TOOLROOM_WORK"
	// RlimitEnv, if not empty, makes the guest limit memory and CPU time of the
	// program by rlimits, because the driver cannot do better. If it is cpu, CPU
	// time alone.
	RlimitEnv = "TOOLROOM_RLIMIT"
	// SeccompEnv names the filter (standard, hardened) that the guest puts on
	// itself and on all that it starts, where nobody has done so before.
	SeccompEnv = "TOOLROOM_SECCOMP"
	// EgressEnv, if not empty, makes the guest serve a proxy to its program, whose
	// connections the host makes. Only the loopback is there besides.
	EgressEnv = "TOOLROOM_EGRESS"
	// PythonEnv, if not empty, is a folder with the guest for Python as [CompilePython]
	// makes it. Without it the guest writes one for each program.
	PythonEnv = "TOOLROOM_PYTHON"
	// AheadEnv, if not empty, says that no program is near: the guest prepares an
	// interpreter while it waits.
	AheadEnv = "TOOLROOM_AHEAD"
	// HoldEnv, if not empty, makes the guest prepare an interpreter, say [Held], and
	// wait for a byte before its hello. A driver can keep the sandbox as it is then,
	// and start many from there.
	HoldEnv = "TOOLROOM_HOLD"
)

// Held is what a guest says that waits as [HoldEnv] wants.
const Held = "toolroom-held\n"

// Filter is the setting by which a guest puts the filter of a profile on itself;
// dev has none.
func Filter(p sandbox.Profile) []string {
	switch p {
	case sandbox.Dev:
		return nil
	case sandbox.Hardened:
		return []string{SeccompEnv + "=hardened"}
	}
	return []string{SeccompEnv + "=standard"}
}

// MainArg makes a larger binary be the guest; toolroom-guest accepts it too.
const MainArg = "__guest"

// ToolArg is the argument by which a guest's binary knows that it was started
// as the command `tool`.
const ToolArg = "tool"
