package microvm

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/sandbox"
)

// accelerator describes how VMs run on this machine, as determined by booting one.
type accelerator struct {
	// Key identifies the versions and conditions of the probe.
	Key     string `json:"key"`
	Version string `json:"version"` // the monitor's version
	KVM     bool   `json:"kvm"`
	// Reason says why VMs run without KVM.
	Reason string `json:"reason,omitempty"`
}

// kvmTimeout bounds the boot of a VM on KVM. A KVM that cannot run an ordinary kernel
// hangs instead of failing.
const kvmTimeout = 15 * time.Second

// findAccelerator boots a VM, unless one has been booted with this image and monitor since
// the host machine was booted.
func (d *Driver) findAccelerator(ctx context.Context) (accelerator, error) {
	end, err := takeTurn(ctx, d.probing)
	if err != nil {
		return accelerator{}, err
	}
	defer end()
	if d.found != nil {
		return *d.found, nil
	}
	version, err := d.monitor.version(ctx)
	if err != nil {
		return accelerator{}, fmt.Errorf("%s does not report its version: %w", d.o.Program, err)
	}
	manifest, err := os.ReadFile(filepath.Join(d.o.Folder, manifestFile))
	if err != nil {
		return accelerator{}, err
	}
	kvm := d.kvm()
	found := accelerator{Key: digest(version, bootID(), string(manifest), kvm), Version: version}
	path := filepath.Join(d.o.Folder, "probe-"+d.name+".json")
	var kept accelerator
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &kept) == nil && kept.Key == found.Key {
		d.found = &kept
		return kept, nil
	}
	if kvm == "" {
		if err := d.tryBoot(ctx, true); err != nil {
			kvm = "a VM does not boot on /dev/kvm: " + err.Error()
		}
	}
	found.KVM, found.Reason = kvm == "", kvm
	if !found.KVM {
		if err := d.monitor.checkEmulation(); err != nil {
			return accelerator{}, fmt.Errorf("%s; %w", kvm, err)
		}
		if err := d.tryBoot(ctx, false); err != nil {
			return accelerator{}, err
		}
	}
	d.found = &found
	data, _ := json.Marshal(found) // cannot fail: strings and booleans only
	// Without the file, the next process probes again.
	_ = atomicfile.Write(path, data, 0o600)
	return found, nil
}

// tryBoot boots a VM and ends it.
func (d *Driver) tryBoot(ctx context.Context, kvm bool) error {
	if kvm {
		short, cancel := context.WithTimeout(ctx, kvmTimeout)
		defer cancel()
		ctx = short
	}
	spec, err := d.spec(sandbox.Spec{Guest: d.o.Guest, Args: d.o.GuestArgs, Limits: sandbox.Limits{Memory: defaultMemory}}, kvm)
	if err != nil {
		return err
	}
	m, err := d.monitor.boot(ctx, spec, nil)
	if err != nil {
		return err
	}
	defer m.kill()
	return m.awaitReady(ctx)
}

// kvmReason returns why KVM cannot run an ordinary kernel here, or "" if the reason
// cannot be found without booting one. Opening /dev/kvm successfully says little: the
// file may exist on a processor without virtualization, where KVM can run only special
// kernels.
func kvmReason() string {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "no KVM (" + err.Error() + ")"
	}
	f.Close()
	if flags := cpuInfo("flags"); !slices.ContainsFunc(strings.Fields(flags), func(flag string) bool { return flag == "vmx" || flag == "svm" }) {
		return "/dev/kvm exists, but the processor shows no virtualization (vmx or svm)"
	}
	return ""
}

// clockKHz returns the frequency of the time stamp counter, which emulated VMs see.
func clockKHz() int {
	mhz, _ := strconv.ParseFloat(cpuInfo("cpu MHz"), 64)
	return int(mhz * 1000)
}

// cpuInfo returns a value of the first processor.
func cpuInfo(name string) string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// bootID identifies the boot of the host machine: after the next boot its clocks start
// again.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
