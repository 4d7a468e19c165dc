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

// Probe looks at the image and the monitor, and boots a machine if none has
// been booted with these before; the answer is kept beside the image.
func (d *Driver) Probe(ctx context.Context) sandbox.Probe {
	unsupported := func(reason, fix string) sandbox.Probe {
		return sandbox.Probe{State: sandbox.Unsupported, Reason: reason, Fix: fix}
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return unsupported("machines are made for Linux on x86-64, not for "+runtime.GOOS+" on "+runtime.GOARCH, "use another runtime")
	}
	if _, err := exec.LookPath(d.o.Program); err != nil {
		return unsupported(d.o.Program+" is not installed", d.monitor.install())
	}
	manifest, err := readManifest(d.o.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return unsupported("there is no image for machines in "+d.o.Folder, setupFix)
	}
	if err != nil {
		return sandbox.Probe{State: sandbox.Inconclusive, Reason: err.Error(), Fix: setupFix}
	}
	found, err := d.accelerated(ctx)
	if err != nil {
		p := unsupported("a machine does not boot: "+err.Error(), d.fix(err, setupFix))
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
		p.Version += fmt.Sprintf(" (%s, so the machine is emulated: slow, and no wall that QEMU vouches for)", found.Reason)
	}
	return p
}

func (d *Driver) isolation(found accelerator) string {
	if found.KVM {
		return "vm(" + d.name + "+kvm)"
	}
	return "vm(" + d.name + "+tcg)"
}
