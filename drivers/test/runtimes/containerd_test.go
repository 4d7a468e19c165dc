//go:build integration

package runtimes

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// containerdEngine starts a containerd of its own and returns its socket.
func containerdEngine(t testing.TB) string { return containerdEngineIn(t, folder(t)) }

func containerdEngineIn(t testing.TB, dir string) string {
	t.Helper()
	binary := program(t, "containerd", "containerd")
	program(t, "runc", "runc")
	socket := filepath.Join(dir, "containerd.sock")
	config := filepath.Join(dir, "config.toml")
	text := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon(t, socket, binary, "--config", config)
	return socket
}

func containerdDriver(t testing.TB, o containerd.Options) *containerd.Driver {
	t.Helper()
	d := containerd.New(o)
	archive, err := os.Open(made.archive)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := d.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return d
}

// ctr lists the names of a daemon's objects in our namespace.
func ctr(t testing.TB, socket string, args ...string) []string {
	t.Helper()
	out, err := exec.Command("ctr", append([]string{"--address", socket, "--namespace", "toolroom"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ctr %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.Fields(string(out))
}

// containerdLeftovers returns the containers, tasks, leases, and snapshots except the
// committed one of the image.
func containerdLeftovers(t testing.TB, socket string) []string {
	t.Helper()
	left := ctr(t, socket, "containers", "list", "--quiet")
	left = append(left, ctr(t, socket, "tasks", "list", "--quiet")...)
	left = append(left, ctr(t, socket, "leases", "list", "--quiet")...)
	for _, word := range ctr(t, socket, "snapshots", "list") {
		if strings.HasPrefix(word, "toolroom-") {
			left = append(left, "snapshot "+word)
		}
	}
	return left
}

func TestContainerdPassesTheSuite(t *testing.T) {
	for _, runtime := range []string{"runc", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			program(t, runtime, runtime)
			t.Parallel()
			socket := containerdEngine(t)
			d := containerdDriver(t, containerd.Options{Address: socket, Runtime: runtime})
			var lacks []sandbox.Limit
			if runtime == "runsc" {
				lacks = []sandbox.Limit{sandbox.LimitEgress} // its loopback interface is down
			}
			passes(t, "containerd/"+runtime, sandboxtest.Options{
				New:       func(*testing.T) sandbox.Driver { return d },
				Guest:     made.guest,
				Lacks:     lacks,
				Languages: []string{"python", "javascript", "shell"},
				Leftovers: func(t *testing.T) []string { return containerdLeftovers(t, socket) },
			}, possible(inAnImage, below(runtime)))
		})
	}
}

func TestRemainsOfADeadProcessInContainerdAreRemoved(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	containerdDriver(t, containerd.Options{Address: socket})
	own := mark.Labels("run")
	// runc identifies containers by name, across daemons.
	alive, dead := "toolroom-"+rand.Text(), "toolroom-"+rand.Text()
	for name, owner := range map[string]string{dead: deadOwner(t), alive: own[mark.Owner]} {
		ctr(t, socket, "run", "--detach", "--label", mark.Owner+"="+owner, "--label", mark.Machine+"="+own[mark.Machine], image.Name, name, "sleep", "300")
	}
	t.Cleanup(func() { ctr(t, socket, "tasks", "delete", "--force", alive) })
	if p := containerd.New(containerd.Options{Address: socket}).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	if left := ctr(t, socket, "containers", "list", "--quiet"); len(left) != 1 || left[0] != alive {
		t.Errorf("there are the containers %v", left)
	}
}

func TestContainerdSaysWhyItCannotBeUsed(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	for _, tt := range []struct {
		name   string
		driver *containerd.Driver
		reason string
	}{
		{"no socket", containerd.New(containerd.Options{Address: filepath.Join(folder(t), "none.sock")}), "there is no socket"},
		{"no image", containerd.New(containerd.Options{Address: socket}), "no image"},
		{"no runtime", containerd.New(containerd.Options{Address: socket, Runtime: "nothing"}), "not in the PATH"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tt.driver.Probe(t.Context())
			if p.State != sandbox.Unsupported || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
			_, err := tt.driver.Start(t.Context(), sandbox.Spec{Guest: made.guest})
			refused(t, err, "", "")
		})
	}
}

func TestARunCannotMakeContainerdStartAnyProgram(t *testing.T) {
	t.Parallel()
	socket := containerdEngine(t)
	d := containerdDriver(t, containerd.Options{Address: socket})
	kata := containerd.NewKata(containerd.Options{Address: socket})
	for _, tt := range []struct {
		driver  *containerd.Driver
		runtime string
	}{{d, "sh"}, {d, "../bin/sh"}, {d, "/bin/sh"}, {d, "io.containerd.any.v1"}, {kata, "runc"}} {
		if _, err := tt.driver.Start(t.Context(), sandbox.Spec{Guest: made.guest, Runtime: tt.runtime}); toolroom.CodeOf(err) != toolroom.CodeInvalidArguments {
			t.Errorf("%s/%s: %v", tt.driver.Name(), tt.runtime, err)
		}
	}
}

// Kata cannot run here, so its driver is tested up to the call of its shim.
func TestKataStartsItsShim(t *testing.T) {
	shims := folder(t)
	called := filepath.Join(shims, "called")
	shim := fmt.Sprintf("#!/bin/sh\necho \"$@\" >> %s\necho 'no virtual machines here' >&2\nexit 1\n", called)
	if err := os.WriteFile(filepath.Join(shims, "containerd-shim-kata-v2"), []byte(shim), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", shims+":"+os.Getenv("PATH"))
	socket := containerdEngine(t)
	containerdDriver(t, containerd.Options{Address: socket})
	d := containerd.NewKata(containerd.Options{Address: socket})
	_, err := d.Start(t.Context(), sandbox.Spec{Run: "run", Guest: made.guest})
	if toolroom.CodeOf(err) != toolroom.CodeSandboxUnavailable || !strings.Contains(err.Error(), "no virtual machines here") {
		t.Errorf("the start said %v", err)
	}
	if args, err := os.ReadFile(called); err != nil || !strings.Contains(string(args), "-namespace toolroom") {
		t.Errorf("the shim was called with %q, %v", args, err)
	}
	if left := containerdLeftovers(t, socket); len(left) > 0 {
		t.Errorf("there is left %v", left)
	}
}
