package oci

import (
	"path"
	"strings"

	"github.com/toolroom/toolroom/sandbox"
)

// Isolation returns the isolation layers of a guest that engine runs under a runtime,
// given by its name and its program: each is a name, a path, or a shim such as
// io.containerd.kata.v2. Only program determines the layers, because any runtime may be
// registered under the name runsc. See [sandbox.Sandbox.Isolation].
func Isolation(engine, name, program string, p sandbox.Profile) string {
	layers := engine + "(" + short(name) + ")"
	switch short(program) {
	case "runsc":
		layers = engine + "+gvisor(" + short(name) + ")"
	case "kata", "kata-runtime":
		layers = engine + "+kata"
	}
	if p != sandbox.Dev {
		layers += "+seccomp" // the guest's own filter
	}
	return layers
}

// short returns a runtime's usual name: io.containerd.runc.v2 is runc.
func short(runtime string) string {
	name := path.Base(runtime)
	if shim, ok := strings.CutPrefix(name, "io.containerd."); ok {
		return strings.TrimSuffix(shim, path.Ext(shim))
	}
	return name
}
