//go:build integration

package runtimes

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// podmanEngine starts a service of Podman with all its files in a folder of its
// own, and returns its host.
func podmanEngine(t testing.TB) string {
	t.Helper()
	podman := program(t, "podman", "podman")
	program(t, "runc", "runc")
	dir := folder(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{
		"containers.conf": "[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n",
		"storage.conf":    fmt.Sprintf("[storage]\ndriver = \"overlay\"\nrunroot = %q\ngraphroot = %q\n", in("run"), in("graph")),
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Podman leaves it mounted, more than once if two of its processes mounted it at the same
	// time. The one that cleans up after a container may do so when the service has ended.
	t.Cleanup(func() {
		for range 100 {
			for syscall.Unmount(in("graph/overlay"), syscall.MNT_DETACH) == nil {
			}
			if os.RemoveAll(dir) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	daemon(t, in("podman.sock"), "/usr/bin/env", "CONTAINERS_CONF="+in("containers.conf"), "CONTAINERS_STORAGE_CONF="+in("storage.conf"),
		podman, "--tmpdir", in("tmp"), "--network-config-dir", in("net"), "system", "service", "--time", "0", "unix://"+in("podman.sock"))
	return "unix://" + in("podman.sock")
}

func TestPodmanPassesTheSuite(t *testing.T) {
	t.Parallel()
	d, host := dockerDriver(t, docker.Options{Host: podmanEngine(t)})
	passes(t, "docker (Podman)", sandboxtest.Options{
		New:       func(*testing.T) sandbox.Driver { return d },
		Guest:     made.guest,
		Languages: []string{"python", "javascript", "shell"},
		Leftovers: func(t *testing.T) []string { return containers(t, host) },
	}, inAnImage)
}
