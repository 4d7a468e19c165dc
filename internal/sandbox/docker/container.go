package docker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/sandbox/mark"
	"github.com/toolroom/toolroom/internal/sandbox/oci"
	"github.com/toolroom/toolroom/sandbox"
)

const (
	guestPath  = "/run/toolroom-guest"
	workFolder = "/work"
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	nobody     = "65534"
)

// What a container gets that asks for nothing, as the process driver gives it.
const (
	defaultDisk   = 64 << 20
	defaultPIDs   = 512
	defaultInodes = 16384
)

// podmanProcesses takes the place of Podman's own limit for each user, which is
// higher than a Podman without CAP_SYS_RESOURCE may set. Containers have theirs
// from cgroups.
const podmanProcesses = 32768

// createOptions is what the contract's words mean to the engine.
func createOptions(s sandbox.Spec, podman bool) client.ContainerCreateOptions {
	config := &container.Config{
		Image:      s.Image,
		Entrypoint: append([]string{guestPath}, s.Args...),
		Cmd:        []string{},
		Env:        slices.Concat([]string{"PATH=" + searchPath, "HOME=" + workFolder, "LANG=C.UTF-8", guest.WorkEnv + "=" + workFolder}, guest.Filter(s.Profile), s.Env),
		WorkingDir: workFolder,
		User:       nobody + ":" + nobody,
		OpenStdin:  true, StdinOnce: true, // the guest ends when nobody is there any more
		AttachStdin: true, AttachStdout: true, AttachStderr: true,
		Labels:      mark.Labels(s.Run),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	host := &container.HostConfig{
		Runtime:        s.Runtime,
		NetworkMode:    "none",
		ReadonlyRootfs: true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges"},
		MaskedPaths:    oci.Masked(s.Profile),
		ReadonlyPaths:  oci.Readonly(),
		LogConfig:      container.LogConfig{Type: "none"}, // the bridge is not for the engine's disk
		Mounts:         []mount.Mount{{Type: mount.TypeBind, Source: s.Guest, Target: guestPath, ReadOnly: true}},
		Resources:      resources(s.Limits),
	}
	disk := s.Limits.Disk
	if disk == 0 {
		disk = defaultDisk
	}
	// Both can be written to, so they share what is allowed.
	host.ShmSize = disk / 8
	work := fmt.Sprintf("rw,exec,nosuid,nodev,size=%d", disk-host.ShmSize)
	if podman {
		// It knows neither owners nor a number of inodes; there is one user inside,
		// and inodes count as memory.
		work += ",mode=0777"
		host.SecurityOpt = append(host.SecurityOpt, "mask="+strings.Join(host.MaskedPaths, ":")) // where alone it looks for them
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "nproc", Soft: podmanProcesses, Hard: podmanProcesses})
	} else {
		work += fmt.Sprintf(",mode=0700,uid=%s,gid=%s,nr_inodes=%d", nobody, nobody, defaultInodes)
	}
	host.Tmpfs = map[string]string{workFolder: work}
	if s.Profile == sandbox.Dev {
		// Who develops installs packages: root, with what that takes.
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
	pids := int64(l.PIDs)
	if pids == 0 {
		pids = defaultPIDs
	}
	r := container.Resources{
		Memory: l.Memory, MemorySwap: l.Memory, // no swap besides
		NanoCPUs: int64(l.CPUs * 1e9), PidsLimit: &pids,
		Ulimits: []*container.Ulimit{{Name: "nofile", Soft: 1024, Hard: 1024}, {Name: "core"}},
	}
	if l.CPU > 0 {
		seconds := int64((l.CPU + time.Second - 1) / time.Second)
		r.Ulimits = append(r.Ulimits, &container.Ulimit{Name: "cpu", Soft: seconds, Hard: seconds + 1})
	}
	return r
}
