//go:build integration

package runtimes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolroom/toolroom/bridge"
	"github.com/toolroom/toolroom/drivers/containerd"
	"github.com/toolroom/toolroom/drivers/docker"
	"github.com/toolroom/toolroom/drivers/gvisor"
	"github.com/toolroom/toolroom/internal/engine"
	"github.com/toolroom/toolroom/internal/engine/hosted"
	"github.com/toolroom/toolroom/sandbox"
)

// TestEveryWritableFolderHasASize: a program fills each folder that it may write to.
func TestEveryWritableFolderHasASize(t *testing.T) {
	t.Parallel()
	const disk, inodes = 16 << 20, 20_000
	for _, name := range []string{"docker/runc", "docker/runsc", "containerd/runc", "containerd/runsc", "gvisor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, runtime, _ := strings.Cut(name, "/")
			if kind == "gvisor" || runtime == "runsc" {
				program(t, "runsc", "runsc")
			}
			var d sandbox.Driver
			switch kind {
			case "docker":
				d, _ = dockerDriver(t, docker.Options{Runtime: runtime})
			case "containerd":
				d = containerdDriver(t, containerd.Options{Address: containerdEngine(t), Runtime: runtime})
			default:
				d = gvisor.New(gvisor.Options{Work: folder(t)})
			}
			s := sandbox.Spec{Profile: sandbox.Standard, Guest: made.guest, Limits: sandbox.Limits{Disk: disk, Memory: 512 << 20}}
			result, err := hosted.New(d).Run(t.Context(), engine.Job{
				Run: "full", Owner: "tester", Sandbox: s,
				Program: bridge.Program{Language: "python", Limits: bridge.Limits{Wall: 120_000, Memory: 512 << 20}, Source: fmt.Sprintf(`
import os
total, files = 0, {}
for folder in ["/work", "/dev/shm", "/tmp", "/var/tmp", "/run", "/dev", "/dev/mqueue", "/"]:
    path = folder + "/full"
    try:
        with open(path, "wb", buffering=0) as f:
            while total < 8 * %d:
                n = f.write(bytes(1 << 20))
                total += n
                if n < 1 << 20: break
    except OSError: pass
    try: os.unlink(path)
    except OSError: pass
for folder in ["/work", "/dev/shm"]:
    made = 0
    try:
        os.mkdir(folder + "/many")
        for i in range(%d):
            os.close(os.open(folder + "/many/" + str(i), os.O_CREAT)); made += 1
    except OSError: pass
    files[folder] = made
return [total, files["/work"], files["/dev/shm"]]
`, disk, inodes)},
			}, &listener{})
			if err != nil || result.Outcome.Failure != nil {
				t.Fatalf("%+v, %v", result, err)
			}
			got, ok := result.Outcome.Value.([]bridge.Value)
			if !ok || len(got) != 3 {
				t.Fatalf("%#v", result.Outcome.Value)
			}
			t.Logf("written: %v", got)
			if n, _ := got[0].(int64); n > disk || n < disk/2 {
				t.Errorf("all folders took %d bytes, with a limit of %d", n, disk)
			}
			if strings.Contains(name, "runc") && (got[1] == int64(inodes) || got[2] == int64(inodes)) {
				t.Errorf("/work and /dev/shm took %v files", got[1:])
			}
		})
	}
}

// TestDevCannotWriteToTheTreeOfCgroups: Docker mounts it in a folder without a size.
func TestDevCannotWriteToTheTreeOfCgroups(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"docker", "containerd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var d sandbox.Driver
			if name == "docker" {
				d, _ = dockerDriver(t, docker.Options{Runtime: "runc"})
			} else {
				d = containerdDriver(t, containerd.Options{Address: containerdEngine(t), Runtime: "runc"})
			}
			result, err := hosted.New(d).Run(t.Context(), engine.Job{
				Run: "cgroups", Owner: "tester", Sandbox: sandbox.Spec{Profile: sandbox.Dev, Guest: made.guest},
				Program: bridge.Program{Language: "python", Limits: bridge.Limits{Wall: 120_000}, Source: `
import os
wrote = []
for folder, below, _ in os.walk("/sys/fs/cgroup"):
    try:
        with open(folder + "/full", "wb") as f: f.write(b"x")
        wrote.append(folder)
    except OSError: pass
return wrote
`},
			}, &listener{})
			if err != nil || result.Outcome.Failure != nil {
				t.Fatalf("%+v, %v", result, err)
			}
			if wrote, ok := result.Outcome.Value.([]bridge.Value); !ok || len(wrote) > 0 {
				t.Errorf("it wrote to %v", result.Outcome.Value)
			}
		})
	}
}
