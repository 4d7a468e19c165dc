//go:build amd64 || arm64

package lockdown

import (
	"os"
	"os/exec"
	"testing"
)

// BenchmarkStart measures a program from start to end, compared with executing it
// without a sandbox.
func BenchmarkStart(b *testing.B) {
	programs := []struct {
		name string
		argv []string
	}{
		{"true", []string{"/bin/true"}},
		{"busybox", []string{"/bin/busybox", "true"}},
		{"python3", []string{"/usr/bin/python3", "-c", "pass"}},
	}
	for _, program := range programs {
		if _, err := os.Stat(program.argv[0]); err != nil {
			continue
		}
		b.Run(program.name+"/plain", func(b *testing.B) {
			for b.Loop() {
				if err := exec.Command(program.argv[0], program.argv[1:]...).Run(); err != nil {
					b.Fatal(err)
				}
			}
		})
		limits := Limits{Memory: 256 << 20, PIDs: 64, CPUs: 1}
		for _, c := range []struct {
			name string
			spec Spec
		}{
			{"no limits", Spec{}},
			{"standard", Spec{Limits: limits}},
			{"hardened", Spec{Limits: limits, Seccomp: Hardened}},
			{"direct", Spec{Limits: limits, Seccomp: Hardened, Direct: true}},
		} {
			b.Run(program.name+"/"+c.name, func(b *testing.B) {
				var h HostMachine
				h.Probe(b.Context())
				c.spec.Path, c.spec.Args, c.spec.Root, c.spec.BestEffort = program.argv[0], program.argv, System(), true
				for b.Loop() {
					p, err := h.Start(b.Context(), c.spec)
					if err != nil {
						b.Fatal(err)
					}
					if exit, err := p.Wait(); err != nil || exit.Code != 0 {
						b.Fatal(exit, err)
					}
				}
			})
		}
	}
}
