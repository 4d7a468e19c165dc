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

// accelerator is what machines run on here, as a machine that was booted has
// shown.
type accelerator struct {
	// Key names what it was found out with.
	Key     string `json:"key"`
	Version string `json:"version"` // of the monitor
	KVM     bool   `json:"kvm"`
	// Reason says why it is not KVM.
	Reason string `json:"reason,omitempty"`
}

// kvmPatience is how long a machine may take to boot on KVM. A KVM that cannot
// run an ordinary kernel hangs rather than fails.
const kvmPatience = 15 * time.Second

// accelerated boots a machine, unless that has been done since the host was
// booted, with this image and monitor.
func (d *Driver) accelerated(ctx context.Context) (accelerator, error) {
	d.probing.Lock()
	defer d.probing.Unlock()
	if d.found != nil {
		return *d.found, nil
	}
	version, err := d.monitor.version(ctx)
	if err != nil {
		return accelerator{}, fmt.Errorf("%s does not tell its version: %w", d.o.Program, err)
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
			kvm = "a machine does not boot on /dev/kvm: " + err.Error()
		}
	}
	found.KVM, found.Reason = kvm == "", kvm
	if !found.KVM {
		if err := d.monitor.emulates(); err != nil {
			return accelerator{}, fmt.Errorf("%s; %w", kvm, err)
		}
		if err := d.tryBoot(ctx, false); err != nil {
			return accelerator{}, err
		}
	}
	d.found = &found
	data, _ := json.Marshal(found) // of texts
	// Who cannot keep the answer asks again.
	_ = atomicfile.Write(path, data, 0o600)
	return found, nil
}

// tryBoot boots a machine and ends it.
func (d *Driver) tryBoot(ctx context.Context, kvm bool) error {
	if kvm {
		short, cancel := context.WithTimeout(ctx, kvmPatience)
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

// kvmReason says why KVM cannot run an ordinary kernel here, as far as that can
// be told without booting one. A /dev/kvm that opens says little: there is one
// where the processor has no virtualization, and its guests need kernels of
// their own.
func kvmReason() string {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return "no KVM (" + err.Error() + ")"
	}
	f.Close()
	if flags := cpuInfo("flags"); !slices.ContainsFunc(strings.Fields(flags), func(flag string) bool { return flag == "vmx" || flag == "svm" }) {
		return "/dev/kvm is there, but the processor shows no virtualization (vmx or svm)"
	}
	return ""
}

// clockKHz is the rate of the time stamp counter, which emulated machines see.
func clockKHz() int {
	mhz, _ := strconv.ParseFloat(cpuInfo("cpu MHz"), 64)
	return int(mhz * 1000)
}

// cpuInfo is a value of the first processor.
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

// bootID names the host's boot: clocks count from another start in the next.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}
