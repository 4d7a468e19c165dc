package oci_test

import (
	"testing"

	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/sandbox"
)

func TestIsolationDependsOnTheProgramAndNotOnTheName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, program string
		profile       sandbox.Profile
		want          string
	}{
		{"runc", "runc", sandbox.Standard, "docker(runc)+seccomp"},
		{"runc", "runc", sandbox.Dev, "docker(runc)"},
		{"runsc", "/usr/local/bin/runsc", sandbox.Hardened, "docker+gvisor(runsc)+seccomp"},
		{"fast", "io.containerd.runsc.v1", sandbox.Dev, "docker+gvisor(fast)"},
		{"runsc", "/usr/bin/runc", sandbox.Standard, "docker(runsc)+seccomp"},
		{"kata", "io.containerd.kata.v2", sandbox.Standard, "docker+kata+seccomp"},
		{"/usr/sbin/runc", "/usr/sbin/runc", sandbox.Dev, "docker(runc)"},
		{"io.containerd.runc.v2", "io.containerd.runc.v2", sandbox.Dev, "docker(runc)"},
		{"other", "", sandbox.Dev, "docker(other)"},
	} {
		if got := oci.Isolation("docker", tt.name, tt.program, tt.profile); got != tt.want {
			t.Errorf("%s of %s in %s: %s, want %s", tt.name, tt.program, tt.profile, got, tt.want)
		}
	}
}
