package microvm

import (
	"context"
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

// machineSpec says what machine to start. Two of the same spec are alike, so
// one's snapshot is good for the other.
type machineSpec struct {
	kernel, initrd, disk string // paths
	guestArgs            []string
	memory               int64 // bytes, whole MiB
	cpus                 int
	kvm                  bool
	owner                string // see proc.Owner
}

// template is a snapshot: a machine that has said that it is ready.
type template struct {
	memory, state string // paths
}

// monitor is what runs machines: QEMU or Firecracker.
type monitor interface {
	// version asks the program for its version.
	version(ctx context.Context) (string, error)
	// install says how to get it.
	install() string
	// emulates is an error if it runs machines on KVM alone.
	emulates() error
	// boot starts a machine. With a template, its memory is kept in that file,
	// so that it can be snapshot.
	boot(ctx context.Context, s machineSpec, t *template) (*machine, error)
	// snapshot writes the state of a machine that was booted for t, and stops it.
	snapshot(ctx context.Context, m *machine, t *template) error
	// restore starts a machine as it was when t was made.
	restore(ctx context.Context, s machineSpec, t *template) (*machine, error)
}

// machine is one that runs.
type machine struct {
	process *proc.Process
	console *console
	stream  net.Conn // leads to the first process inside
	control *qmp     // of QEMU
	folder  string   // of Firecracker
	release func()   // removes what the monitor has made for the machine
}

// awaitReady returns when the first process in the machine waits for settings.
func (m *machine) awaitReady(ctx context.Context) error {
	defer deadline(ctx, m.stream)()
	said := make([]byte, len(vm.Ready))
	if _, err := io.ReadFull(m.stream, said); err != nil {
		return m.explain(ctx, err)
	}
	if string(said) != vm.Ready {
		return fmt.Errorf("the machine said %q in place of %q: it was made by another version; run toolroom setup microvm again", said, vm.Ready)
	}
	return nil
}

// errLate says that a machine was given up.
var errLate = errors.New("the machine did not come up in time")

// errSilent says that a machine ended without a word on its console.
var errSilent = errors.New("the machine ended at once and said nothing: its kernel is damaged, or for another processor")

// lastWords is how long a monitor whose streams have ended may take to end.
const lastWords = time.Second

// explain says why a machine did not come up.
func (m *machine) explain(ctx context.Context, err error) error {
	select {
	case <-m.process.Done(): // and all that it said is there
	case <-ctx.Done():
	case <-time.After(lastWords):
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errLate, context.Cause(ctx))
	} else if r, ok := m.console.report(); ok && r.Error != "" {
		return errors.New(r.Error)
	}
	if said := m.console.end(); said != "" {
		return fmt.Errorf("%w; its console ends with: %s", err, said)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errSilent
	}
	return err
}

// kill ends the machine and removes what was made for it.
func (m *machine) kill() {
	if m.stream != nil {
		m.stream.Close()
	}
	m.process.Stop(0)
	if m.release != nil {
		m.release()
	}
}

// initArgs are the arguments of the machine's first process, on the kernel's
// command line.
func (s machineSpec) initArgs() string {
	return "rdinit=/init -- " + strings.Join(append(s.guestArgs[:len(s.guestArgs):len(s.guestArgs)], vm.Arg), " ")
}
