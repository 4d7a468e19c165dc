package docker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom/drivers/oci"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// podmanProcesses replaces Podman's default limit per user, which a Podman without
// CAP_SYS_RESOURCE may not set. The cgroup limits the processes of a container.
const podmanProcesses = 32768

// createOptions translates s for the engine.
func createOptions(s sandbox.Spec, podman, gVisor bool) client.ContainerCreateOptions {
	uid, gid := oci.User(s)
	config := &container.Config{
		Image:      s.Image,
		Entrypoint: append([]string{oci.GuestPath}, s.Args...),
		Cmd:        []string{},
		Env:        oci.Environment(s),
		WorkingDir: oci.WorkFolder,
		User:       fmt.Sprintf("%d:%d", uid, gid),
		OpenStdin:  true, StdinOnce: true, // the guest ends when the client disconnects
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Labels:      proc.Labels(s.Run),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		Runtime:        s.Runtime,
		NetworkMode:    "none",
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		MaskedPaths:    oci.Masked(s),
		ReadonlyPaths:  oci.Readonly(),
		LogConfig:      container.LogConfig{Type: "none"}, // the bridge must not be logged to disk
		Mounts:         []mount.Mount{{Type: mount.TypeBind, Source: s.Guest, Target: oci.GuestPath, ReadOnly: true}},
		Resources:      resources(s.Limits),
	}
	size, shm, tmp := oci.Sizes(s.Limits, gVisor)
	work := fmt.Sprintf("rw,exec,nosuid,nodev,size=%d", size)
	if podman {
		// Podman supports neither an owner nor a limit of inodes here. There is only one
		// user inside, and inodes count as memory.
		work += ",mode=0777"
		host.ShmSize = shm
		host.SecurityOpt = append(host.SecurityOpt, "mask="+strings.Join(host.MaskedPaths, ":")) // the only option for masked paths that Podman reads
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "nproc", Soft: podmanProcesses, Hard: podmanProcesses})
	} else {
		work += fmt.Sprintf(",mode=0700,uid=%d,gid=%d,nr_inodes=%d", uid, gid, oci.MaxInodes)
	}
	host.Tmpfs = map[string]string{oci.WorkFolder: work}
	if !podman {
		host.Tmpfs["/dev/shm"] = fmt.Sprintf("rw,noexec,nosuid,nodev,mode=1777,size=%d,nr_inodes=%d", shm, oci.MaxInodes)
	}
	if gVisor {
		host.Tmpfs["/tmp"] = fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", tmp)
	}
	place := func(f sandbox.Folder) string { return cmp.Or(f.Target, f.Source) }
	for i, f := range s.Folders {
		// The last one at a place hides the others, and the engine refuses two.
		if !slices.ContainsFunc(s.Folders[i+1:], func(later sandbox.Folder) bool { return place(later) == place(f) }) {
			host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: f.Source, Target: place(f), ReadOnly: !f.Writable})
		}
	}
	if s.Profile == sandbox.Dev {
		// Development includes installing packages, which needs root and these capabilities.
		config.User = "0:0"
		host.ReadonlyRootfs = false
		host.CapAdd = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID"}
	}
	if s.Networked() {
		host.NetworkMode = "bridge"
	}
	return client.ContainerCreateOptions{Config: config, HostConfig: host}
}

func resources(l sandbox.Limits) container.Resources {
	pids := oci.PIDs(l)
	r := container.Resources{
		Memory: l.Memory, MemorySwap: l.Memory, // no swap in addition
		NanoCPUs: int64(l.CPUs * 1e9), PidsLimit: &pids,
		Ulimits: []*container.Ulimit{
			{Name: "nofile", Soft: 1024, Hard: 1024},
			{Name: "core", Soft: 1, Hard: 1}, // with 0 the machine's core dump handler would still run
		},
	}
	if seconds := oci.CPUSeconds(l); seconds > 0 {
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: "cpu", Soft: seconds, Hard: seconds + 1})
	}
	return r
}
