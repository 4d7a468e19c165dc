package oci

import (
	"path"
	"strings"

	"github.com/toolroom/toolroom/sandbox"
)

// Walls says what stands around a guest whose engine runs it under a runtime,
// by its name there and its program: either is a name, a path, or a shim such as
// io.containerd.kata.v2. Only what program tells counts, for anybody may call a
// runtime runsc. See [sandbox.Sandbox.Isolation].
func Walls(engine, name, program string, p sandbox.Profile) string {
	walls := engine + "(" + short(name) + ")"
	switch short(program) {
	case "runsc":
		walls = engine + "+gvisor(" + short(name) + ")"
	case "kata", "kata-runtime":
		walls = engine + "+kata"
	}
	if p != sandbox.Dev {
		walls += "+seccomp" // the guest's own filter
	}
	return walls
}

// short is a runtime as people call it: io.containerd.runc.v2 is runc.
func short(runtime string) string {
	name := path.Base(runtime)
	if shim, ok := strings.CutPrefix(name, "io.containerd."); ok {
		return strings.TrimSuffix(shim, path.Ext(shim))
	}
	return name
}
