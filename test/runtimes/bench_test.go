//go:build integration

package runtimes

import (
	"io"
	"os/exec"
	"testing"

	"github.com/toolroom/toolroom/internal/image"
	"github.com/toolroom/toolroom/internal/sandbox/containerd"
	"github.com/toolroom/toolroom/internal/sandbox/docker"
	"github.com/toolroom/toolroom/internal/sandbox/gvisor"
	"github.com/toolroom/toolroom/sandbox"
)

// BenchmarkColdStart measures a guest from its start to its hello, and its
// removal; and beside it the engine's own command with `true` in the same image.
func BenchmarkColdStart(b *testing.B) {
	b.Run("docker", func(b *testing.B) {
		d, host := dockerDriver(b, docker.Options{})
		b.Run("driver", func(b *testing.B) { startAndKill(b, d) })
		b.Run("bare", func(b *testing.B) {
			command(b, "docker", "--host", host, "run", "--rm", "--network=none", image.Name, "true")
		})
	})
	b.Run("containerd", func(b *testing.B) {
		socket := containerdEngine(b)
		d := containerdDriver(b, containerd.Options{Address: socket})
		b.Run("driver", func(b *testing.B) { startAndKill(b, d) })
		b.Run("bare", func(b *testing.B) {
			command(b, "ctr", "--address", socket, "--namespace", "toolroom", "run", "--rm", image.Name, "bench", "true")
		})
	})
	b.Run("gvisor", func(b *testing.B) {
		program(b, "runsc", "gvisor.dev/gvisor/runsc")
		d := gvisor.New(gvisor.Options{Work: folder(b)})
		b.Run("driver", func(b *testing.B) { startAndKill(b, d) })
		b.Run("bare", func(b *testing.B) {
			command(b, "runsc", "--network=none", "--ignore-cgroups", "do", "true")
		})
	})
}

func startAndKill(b *testing.B, d sandbox.Driver) {
	spec := sandbox.Spec{Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Memory: 256 << 20, PIDs: 128}}
	if p := d.Probe(b.Context()); p.State != sandbox.Available {
		b.Fatalf("%+v", p)
	}
	for b.Loop() {
		box, err := d.Start(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(box.Stream(), make([]byte, 4)); err != nil {
			b.Fatal(err)
		}
		if err := box.Kill(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

func command(b *testing.B, name string, args ...string) {
	for b.Loop() {
		if out, err := exec.CommandContext(b.Context(), name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%s: %v: %s", name, err, out)
		}
	}
}
