// Package guest is the part of the bridge that runs inside a sandbox: it receives a
// program, runs it with an interpreter of the sandbox, relays the program's requests
// to the server, and reports how the program ended. It is the implementation of the
// binary toolroom-guest, and serves one run per process.
package guest

import "github.com/toolroom/toolroom/sandbox"

// Environment variables by which a driver configures a guest.
const (
	// AliveEnv, if not empty, makes the guest end once the server has been silent for
	// [AliveTimeout]. A driver sets it if the stream does not end with the server.
	AliveEnv = "TOOLROOM_ALIVE"
	// TokenEnv is the token of the guest's hello, in hex; the guest removes it from
	// its environment at once.
	TokenEnv = "TOOLROOM_BRIDGE_TOKEN"
	// WorkEnv is the folder in which programs run.
	WorkEnv = "TOOLROOM_WORK"
	// RlimitEnv, if not empty, makes the guest limit the program's memory and CPU time
	// by rlimits, because the driver has no better mechanism. If it is "cpu", the guest
	// limits CPU time only.
	RlimitEnv = "TOOLROOM_RLIMIT"
	// SeccompEnv names the seccomp filter (standard, hardened) that the guest installs
	// on itself and everything it starts, if no filter is installed yet.
	SeccompEnv = "TOOLROOM_SECCOMP"
	// EgressEnv, if not empty, makes the guest serve a proxy to its program; the server
	// makes the connections. The only network interface is the loopback.
	EgressEnv = "TOOLROOM_EGRESS"
	// PythonEnv, if not empty, is a folder with the guest for Python, as made by
	// [CompilePython]. Without it the guest writes one for each program.
	PythonEnv = "TOOLROOM_PYTHON"
	// AheadEnv, if not empty, means that the program will come later: the guest
	// prepares an interpreter while it waits.
	AheadEnv = "TOOLROOM_AHEAD"
	// AheadLanguageEnv names the language of that program, python if it is empty.
	AheadLanguageEnv = "TOOLROOM_AHEAD_LANGUAGE"
	// LayerEnv is the folder of the program's packages, and PreloadEnv a JSON list of those
	// that an interpreter loads before its program comes.
	LayerEnv   = "TOOLROOM_LAYER"
	PreloadEnv = "TOOLROOM_PRELOAD"
	// HoldEnv, if not empty, makes the guest prepare an interpreter, write [Held], and
	// wait for a byte before its hello. At that point a driver can take a snapshot of
	// the sandbox, and start many from it.
	HoldEnv = "TOOLROOM_HOLD"
)

// Held is the message of a guest that waits because of [HoldEnv].
const Held = "toolroom-held\n"

// Filter returns the environment that makes a guest install the seccomp filter of a
// profile; dev has none.
func Filter(p sandbox.Profile) []string {
	switch p {
	case sandbox.Dev:
		return nil
	case sandbox.Hardened:
		return []string{SeccompEnv + "=hardened"}
	}
	return []string{SeccompEnv + "=standard"}
}

// MainArg makes a larger binary run as the guest; toolroom-guest accepts it, too.
const MainArg = "__guest"

// ToolArg makes the guest's binary run as the command `tool`.
const ToolArg = "tool"
