package microvm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"runtime"

	"github.com/toolroom/toolroom/sandbox"
)

// Probe checks the image and the monitor, and boots a VM unless one has been booted with
// them before; the result is stored beside the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	unsupported := func(reason, fix string) sandbox.Probe {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: reason, Fix: fix}
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return unsupported("VMs are supported on Linux on x86-64 only, not on "+runtime.GOOS+" on "+runtime.GOARCH, "use another runtime")
	}
	if _, err := exec.LookPath(d.o.Program); err != nil {
		return unsupported(d.o.Program+" is not installed", d.monitor.install())
	}
	manifest, err := readManifest(d.o.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return unsupported("there is no VM image in "+d.o.Folder, setupFix)
	}
	if err != nil {
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: err.Error(), Fix: setupFix}
	}
	found, err := d.findAccelerator(ctx)
	if err != nil {
		p := unsupported("a VM does not boot: "+err.Error(), d.fix(err, setupFix))
		if ctx.Err() != nil {
			p.State = sandbox.Inconclusive
		}
		return p
	}
	p := sandbox.Probe{
		State: sandbox.Available, Version: found.Version + ", Linux " + manifest.Kernel,
		Holds: maps.Clone(holds), Languages: manifest.Languages, Isolation: d.isolation(found),
	}
	if !found.KVM {
		p.Version += fmt.Sprintf(" (%s, so the VM is emulated: slow, and QEMU does not consider emulation a security boundary)", found.Reason)
	}
	return p
}

func (d *Driver) isolation(found accelerator) string {
	if found.KVM {
		return "vm(" + d.name + "+kvm)"
	}
	return "vm(" + d.name + "+tcg)"
}
