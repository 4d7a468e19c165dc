//go:build integration

package runtimes

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
	"github.com/toolroom/toolroom/sandbox/sandboxtest"
)

// dockerEngine starts a Docker engine of its own, which does not change the network of the
// machine, and returns its address.
func dockerEngine(t testing.TB) string { return dockerEngineIn(t, folder(t)) }

func dockerEngineIn(t testing.TB, dir string) string {
	t.Helper()
	dockerd := program(t, "dockerd", "docker.io")
	socket := filepath.Join(dir, "docker.sock")
	args := []string{
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"-H", "unix://" + socket, "--iptables=false", "--ip6tables=false", "--bridge=none",
	}
	if runsc, err := exec.LookPath("runsc"); err == nil {
		args = append(args, "--add-runtime", "runsc="+runsc)
	}
	// Docker's bind mount of this folder stays if Docker is ended while it starts.
	t.Cleanup(func() { _ = syscall.Unmount(filepath.Join(dir, "data"), syscall.MNT_DETACH) })
	daemon(t, socket, dockerd, args...)
	return "unix://" + socket
}

// dockerDriver returns a driver on an engine with the default image. If no engine is named,
// it starts one.
func dockerDriver(t testing.TB, o docker.Options) (d *docker.Driver, host string) {
	t.Helper()
	if o.Host == "" {
		o.Host = dockerEngine(t)
	}
	d = docker.New(o)
	archive, err := os.Open(made.archive)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	if err := d.LoadImage(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return d, o.Host
}

func containers(t testing.TB, host string) []string {
	t.Helper()
	out, err := exec.Command("docker", "--host", host, "ps", "--all", "--no-trunc", "--format", "{{.ID}} {{.Status}} {{.Labels}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

func TestDockerPassesTheSuite(t *testing.T) {
	t.Parallel()
	for _, runtime := range []string{"runc", "runsc"} {
		t.Run(runtime, func(t *testing.T) {
			program(t, runtime, runtime)
			t.Parallel()
			own, lacks := inAnImage, []sandbox.Limit(nil)
			if runtime == "runsc" {
				own, lacks = possible(own, inDockerWithGVisor), []sandbox.Limit{sandbox.LimitPIDs}
			}
			d, host := dockerDriver(t, docker.Options{Runtime: runtime})
			passes(t, "docker/"+runtime, sandboxtest.Options{
				New:       func(*testing.T) sandbox.Driver { return d },
				Guest:     made.guest,
				Lacks:     lacks,
				Languages: []string{"python", "javascript", "shell"},
				Leftovers: func(t *testing.T) []string { return containers(t, host) },
			}, possible(own, below(runtime)))
		})
	}
}

func TestRemainsOfADeadProcessInDockerAreRemoved(t *testing.T) {
	t.Parallel()
	_, host := dockerDriver(t, docker.Options{})
	create := func(owner, machine string) {
		t.Helper()
		out, err := exec.Command("docker", "--host", host, "create", "--label", proc.LabelOwner+"="+owner, "--label", proc.LabelMachine+"="+machine, image.Name).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	own := proc.Labels("run")
	create(deadOwner(t), own[proc.LabelMachine])
	create(own[proc.LabelOwner], own[proc.LabelMachine])
	create(deadOwner(t), "another machine")
	if p := docker.New(docker.Options{Host: host}).Probe(t.Context()); p.State != sandbox.Available {
		t.Fatalf("%+v", p)
	}
	if left := containers(t, host); len(left) != 2 {
		t.Errorf("of what a dead process, this one and another machine made there is left:\n%s", strings.Join(left, "\n"))
	}
}

func TestDockerSaysWhyItCannotBeUsed(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	silent := filepath.Join(dir, "silent.sock")
	hung, err := net.Listen("unix", silent)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop })}
	go server.Serve(hung)
	t.Cleanup(func() {
		close(stop)
		server.Close()
	})
	engine := dockerEngine(t)
	for _, tt := range []struct {
		name    string
		options docker.Options
		state   sandbox.State
		reason  string
	}{
		{"no socket", docker.Options{Host: "unix://" + dir + "/none.sock"}, sandbox.Unsupported, "there is no socket"},
		{"nothing listens", docker.Options{Host: "unix://" + dead}, sandbox.Unsupported, "nothing listens"},
		{"no answer", docker.Options{Host: "unix://" + silent}, sandbox.Inconclusive, "does not answer"},
		{"no image", docker.Options{Host: engine}, sandbox.Unsupported, "no image"},
		{"no runtime", docker.Options{Host: engine, Runtime: "nothing"}, sandbox.Unsupported, "no runtime nothing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := docker.New(tt.options)
			p := d.Probe(t.Context())
			if p.State != tt.state || !strings.Contains(p.Reason, tt.reason) || p.Fix == "" {
				t.Errorf("the probe said %+v", p)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			_, err := d.Start(ctx, sandbox.Spec{Guest: made.guest})
			refused(t, err, "", "")
		})
	}
}
