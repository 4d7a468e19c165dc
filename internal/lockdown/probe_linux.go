//go:build amd64 || arm64

package lockdown

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Probe reports what this machine supports. It tries each layer for real, once;
// later calls return the same result, and later processes use
// [HostMachine.ProbeCache].
func (h *HostMachine) Probe(context.Context) Report {
	return h.machine().report
}

// Holds returns how each of the limits in l would be enforced.
func (h *HostMachine) Holds(l Limits) []Held {
	m := h.machine()
	return m.heldLimits(l, m.report.Find(Namespaces).Available)
}

// LayersOf returns the isolation layers that a process of s would have.
func (h *HostMachine) LayersOf(s Spec) Layers {
	m := h.machine()
	return m.layers(s.withDefaults(), m.report.Find(Namespaces).Available)
}

func (h *HostMachine) machine() machine {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.found == nil {
		m := h.probe()
		h.found = &m
	}
	return *h.found
}

// forget discards a probe result of an earlier process and reports whether there
// was one.
func (h *HostMachine) forget() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.recalled {
		return false
	}
	h.found, h.recalled = nil, false
	h.ProbeCache.Forget()
	return true
}

func (h *HostMachine) probe() machine {
	var m machine
	var landlock Finding
	landlock, m.landlock = probeLandlock()
	namespaces := h.probeNamespaces(m.landlock)
	seccomp := Finding{Layer: Seccomp, Available: namespaces.Available, Detail: "filter"}
	if !namespaces.Available {
		seccomp = h.probeStart(seccomp, false, m.landlock)
	}
	offline := Finding{Layer: Offline, Available: true, Detail: "network namespace"}
	if !namespaces.Available {
		offline = Finding{Layer: Offline, Available: seccomp.Available, Detail: "seccomp: no internet sockets", Reason: seccomp.Reason, Fix: seccomp.Fix}
	}
	var cgroup Finding
	cgroup, m.cgroups = probeCgroups()
	m.report = Report{namespaces, offline, landlock, seccomp, cgroup}
	return m
}

// probeNamespaces builds a sandbox in namespaces, unless the cache records that one
// was built. A failure is never cached, because it may have been fixed since.
func (h *HostMachine) probeNamespaces(landlock int) Finding {
	f := Finding{Layer: Namespaces, Detail: "user, mount, pid, net, ipc, uts, cgroup"}
	record := h.ProbeCache
	record.Of, record.Binaries = append([]string{"namespaces"}, h.Init...), h.Init[:min(1, len(h.Init))]
	if detail, ok := record.Recall(time.Now()); ok {
		f.Available, f.Detail, h.recalled = true, detail, true
		return f
	}
	if f = h.probeStart(f, true, landlock); f.Available {
		record.Keep(time.Now(), f.Detail)
	}
	return f
}

func probeLandlock() (Finding, int) {
	f := Finding{Layer: Landlock}
	abi, err := landlockABI()
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		f.Reason, f.Fix = "Landlock is built into the kernel and off", "boot with lsm=landlock,... on the kernel's command line"
	case err != nil:
		f.Reason, f.Fix = "the kernel has no Landlock: "+err.Error(), "use Linux 5.13 or newer"
	default:
		f.Available, f.Detail = true, fmt.Sprintf("Landlock ABI %d", abi)
	}
	return f, abi
}

// probeStart builds a whole sandbox that runs nothing.
func (h *HostMachine) probeStart(f Finding, namespaces bool, landlock int) Finding {
	s := Spec{Path: "/", Root: Root{Source: "/", Only: []string{}}}.withDefaults()
	m := machine{landlock: landlock}
	p := &Process{}
	var err error
	if p.plan, err = m.plan(s, namespaces); err == nil {
		p.plan.Probe = true
		err = h.launch(p, s)
	}
	if err != nil {
		f.Reason = err.Error()
		if namespaces && errors.Is(err, unix.ENOSPC) { // clone(2) returns it when the limit of namespaces is reached
			f.Reason = "user namespaces are forbidden: " + f.Reason
		}
		f.Fix = h.fixOf(err)
		return f
	}
	exit, err := p.Wait()
	f.Available = err == nil && exit.Code == 0
	if !f.Available {
		f.Reason, f.Fix = fmt.Sprintf("a test sandbox ended with %+v", exit), "report this as a bug"
	}
	if p.noProc {
		f.Detail += "; without /proc, because the server's own is partly hidden"
	}
	return f
}

// fixOf returns advice for a failed probe. The sysctls that forbid user namespaces
// differ between distributions.
func (h *HostMachine) fixOf(err error) string {
	const others = 0o001
	if errors.Is(err, fs.ErrPermission) && len(h.Init) > 0 {
		if info, statErr := os.Stat(h.Init[0]); statErr == nil && info.Mode()&others == 0 {
			return "chmod a+rx " + h.Init[0] + ": the sandbox runs as another user than its owner"
		}
	}
	for _, gate := range []struct{ path, closed, fix string }{
		{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
		{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "give the binary an AppArmor profile with userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
		{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	} {
		text, readErr := os.ReadFile(gate.path)
		if readErr == nil && strings.TrimSpace(string(text)) == gate.closed {
			return gate.fix
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0, errors.Is(err, syscall.EINVAL):
		return "in a container, allow user namespaces (docker run --security-opt seccomp=unconfined, or a profile that allows clone and mount)"
	case errors.Is(err, fs.ErrPermission):
		return "the binary must be executable for everyone, and the system must allow user namespaces"
	default:
		return "see the reason"
	}
}

func probeCgroups() (Finding, cgroups) {
	f := Finding{Layer: Cgroup, Fix: "run as root, or in a delegated cgroup (systemd: Delegate=yes, the server in a group below it)"}
	found, err := findCgroups()
	for _, need := range []string{"memory", "pids"} {
		if _, ok := found[need]; !ok {
			f.Reason = "no " + need + " controller to use"
			if err != nil {
				f.Reason += ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
			}
			return f, nil
		}
	}
	g, err := found.create(ownName(), Limits{Memory: 1 << 30, PIDs: 16, CPUs: 1})
	if err != nil {
		f.Reason = err.Error()
		return f, nil
	}
	g.remove()
	return Finding{Layer: Cgroup, Available: true, Detail: found.describe()}, found
}
