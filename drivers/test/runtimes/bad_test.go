//go:build integration

package runtimes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/toolroom/toolroom"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/sandbox"
)

func TestAFullDiskIsReportedAndANewStartWorksOnceThereIsSpace(t *testing.T) {
	t.Parallel()
	const size = 600 << 20 // more than twice the image
	for _, name := range []string{"docker", "containerd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := small(t, size)
			var d sandbox.Driver
			var left func() []string
			if name == "docker" {
				driver, host := dockerDriver(t, docker.Options{Host: dockerEngineIn(t, disk)})
				d, left = driver, func() []string { return containers(t, host) }
			} else {
				socket := containerdEngineIn(t, disk)
				d, left = containerdDriver(t, containerd.Options{Address: socket}), func() []string { return containerdLeftovers(t, socket) }
			}
			filler := fill(t, disk)
			_, err := d.Start(t.Context(), sandbox.Spec{Guest: made.guest})
			refused(t, err, "no space left on device", "free disk space")
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			instance, err := d.Start(t.Context(), sandbox.Spec{Guest: made.guest})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(instance.Stream(), make([]byte, 4)); err != nil {
				t.Error(err)
			}
			if err := instance.Kill(t.Context()); err != nil {
				t.Error(err)
			}
			if left := left(); len(left) > 0 {
				t.Errorf("there is left %v", left)
			}
		})
	}
}

func TestAnImageThatCannotBePulledSaysWhy(t *testing.T) {
	t.Parallel()
	const image = "127.0.0.1:1/nobody/listens:latest"
	host := dockerEngine(t)
	_, err := docker.New(docker.Options{Host: host, Image: image, Pull: docker.PullMissing}).Start(t.Context(), sandbox.Spec{Guest: made.guest})
	refused(t, err, "connection refused", "docker pull "+image)
	_, err = docker.New(docker.Options{Host: host, Image: image}).Start(t.Context(), sandbox.Spec{Guest: made.guest})
	refused(t, err, image, "docker.pull")
}

// refused checks the error of an unusable driver, which has the cause and the fix.
func refused(t *testing.T, err error, message, hint string) {
	t.Helper()
	e := toolroom.AsError(err)
	if e == nil || e.Code != toolroom.CodeSandboxUnavailable || !strings.Contains(e.Message, message) || e.Hints() == "" || !strings.Contains(e.Hints(), hint) {
		t.Errorf("got %+v, want %q and the fix %q", e, message, hint)
	}
}

// strangerEnv is the environment variable that makes this binary probe a driver as a user
// who may not use it.
const strangerEnv = "TOOLROOM_TEST_STRANGER"

// heard is the result of the stranger's probe.
type heard struct {
	Probe sandbox.Probe
	Start *toolroom.Error
}

func stranger(text string) int {
	var v victim
	if json.Unmarshal([]byte(text), &v) != nil {
		return 1
	}
	d, ctx := v.driver(), context.Background()
	out := heard{Probe: d.Probe(ctx)}
	_, err := d.Start(ctx, sandbox.Spec{Guest: v.Guest})
	out.Start = toolroom.AsError(err)
	if json.NewEncoder(os.Stdout).Encode(out) != nil {
		return 1
	}
	return 0
}

func TestAUserWithoutAccessToAnEngineGetsAHint(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	exe, socket := filepath.Join(dir, "stranger"), filepath.Join(dir, "root.sock")
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		syscall.ForkLock.RLock() // a child forked meanwhile would hold it open for writing: text file busy
		err = os.WriteFile(exe, self, 0o755)
		syscall.ForkLock.RUnlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := os.Chmod(socket, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		victim
		reason, fix string
	}{
		{victim{Driver: "docker", Address: "unix://" + socket}, "this user may not use unix://" + socket, "group docker"},
		{victim{Driver: "containerd", Address: socket}, "this user may not use " + socket, "run the server as a user with access"},
		{victim{Driver: "gvisor", Folder: dir}, "permission denied", "must be a folder that this user may write to"},
	} {
		t.Run(tt.Driver, func(t *testing.T) {
			t.Parallel()
			tt.Guest = made.guest
			text, err := json.Marshal(tt.victim)
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Dir, cmd.Env, cmd.Stderr = "/", append(os.Environ(), fmt.Sprintf("%s=%s", strangerEnv, text)), os.Stderr
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.Output()
			var got heard
			if err == nil {
				err = json.Unmarshal(out, &got)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if p := got.Probe; p.State != sandbox.Unsupported || !strings.Contains(p.Reason, tt.reason) || !strings.Contains(p.Fix, tt.fix) {
				t.Errorf("the probe said %+v", p)
			}
			if got.Start == nil {
				t.Fatal("it started")
			}
			refused(t, got.Start, tt.reason, tt.fix)
		})
	}
}
