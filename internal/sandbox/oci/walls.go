package oci

import (
	"path"
	"strings"

	"github.com/toolroom/toolroom/sandbox"
)

// Walls says what stands around a guest whose engine runs it under a runtime,
// which people call name and which is program: a path, or the name of a shim such
// as io.containerd.kata.v2. Only what program tells counts, for anybody may call
// a runtime runsc. See [sandbox.Sandbox.Isolation].
func Walls(engine, name, program string, p sandbox.Profile) string {
	walls := engine + "(" + name + ")"
	kind := path.Base(program)
	if shim, ok := strings.CutPrefix(kind, "io.containerd."); ok {
		kind = strings.TrimSuffix(shim, path.Ext(shim))
	}
	switch kind {
	case "runsc":
		walls = engine + "+gvisor(" + name + ")"
	case "kata", "kata-runtime":
		walls = engine + "+kata"
	}
	if p != sandbox.Dev {
		walls += "+seccomp" // the guest's own filter
	}
	return walls
}
