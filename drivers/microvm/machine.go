package microvm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
)

// machineSpec describes a VM to start. VMs with the same spec are identical, so one can be
// started from the snapshot of another.
type machineSpec struct {
	kernel, initrd, disk string // paths
	guestArgs            []string
	memory               int64 // bytes, whole MiB
	cpus                 int
	kvm                  bool
	owner                string // see proc.Owner
}

// template is a snapshot of a VM that is ready.
type template struct {
	memory, state string // paths
}

// monitor runs VMs: QEMU or Firecracker.
type monitor interface {
	// version returns the program's version.
	version(ctx context.Context) (string, error)
	// install returns advice on installing the program.
	install() string
	// checkEmulation returns an error if the monitor requires KVM.
	checkEmulation() error
	// boot starts a VM. With a template, it stores the VM's memory in the template's
	// file, so that a snapshot can be made.
	boot(ctx context.Context, s machineSpec, t *template) (*machine, error)
	// snapshot writes the state of a VM that was booted for t, and stops it.
	snapshot(ctx context.Context, m *machine, t *template) error
	// restore starts a VM from the snapshot t.
	restore(ctx context.Context, s machineSpec, t *template) (*machine, error)
}

// machine is a running VM.
type machine struct {
	process *proc.Process
	console *console
	stream  net.Conn // to the first process inside
	control *qmp     // of QEMU
	folder  string   // of Firecracker
	release func()   // removes what the monitor has made for the VM
}

// awaitReady waits until the first process in the VM is ready for its settings.
func (m *machine) awaitReady(ctx context.Context) error {
	defer deadline(ctx, m.stream)()
	greeting := make([]byte, len(vm.Ready))
	if _, err := io.ReadFull(m.stream, greeting); err != nil {
		return m.explain(ctx, err)
	}
	if string(greeting) != vm.Ready {
		return fmt.Errorf("the VM sent %q instead of %q: it was made by another version; run toolroom setup microvm again", greeting, vm.Ready)
	}
	return nil
}

// errLate reports that a VM was given up.
var errLate = errors.New("the machine did not come up in time")

// errSilent reports that a VM ended without output on its console.
var errSilent = errors.New("the machine ended at once without output: its kernel is damaged, or for another processor")

// exitTimeout bounds the end of a monitor whose streams have ended.
const exitTimeout = time.Second

// explain returns the reason why a VM did not come up.
func (m *machine) explain(ctx context.Context, err error) error {
	select {
	case <-m.process.Done(): // its output is complete
	case <-ctx.Done():
	case <-time.After(exitTimeout):
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errLate, context.Cause(ctx))
	} else if r, ok := m.console.report(); ok && r.Error != "" {
		return errors.New(r.Error)
	}
	if output := m.console.end(); output != "" {
		return fmt.Errorf("%w; its console ends with: %s", err, output)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errSilent
	}
	return err
}

// kill ends the VM and removes what was made for it.
func (m *machine) kill() {
	if m.stream != nil {
		m.stream.Close()
	}
	m.process.Stop(0)
	if m.release != nil {
		m.release()
	}
}

// initArgs returns the arguments of the VM's first process on the kernel's command line.
func (s machineSpec) initArgs() string {
	return "rdinit=/init -- " + strings.Join(append(s.guestArgs[:len(s.guestArgs):len(s.guestArgs)], vm.Arg), " ")
}

// console keeps the end of the output of a VM's kernel, its first process and its
// monitor, and finds the report in it.
type console struct{ proc.Tail }

// newConsole returns a console with room for a report and the end of the kernel's output.
func newConsole() *console { return &console{proc.Tail{Limit: 64 << 10}} }

// report returns the report of the first process, if it has printed one.
func (c *console) report() (r vm.Report, ok bool) {
	_, after, found := strings.Cut(c.String(), "\n"+vm.ReportMark)
	if !found {
		return r, false
	}
	line, _, _ := strings.Cut(after, "\n")
	return r, json.Unmarshal([]byte(strings.TrimSpace(line)), &r) == nil
}

// end returns the end of the output, for people.
func (c *console) end() string {
	const shown = 2 << 10
	text := strings.TrimSpace(c.String())
	text = text[max(0, len(text)-shown):]
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\r", ""), "?")
}
