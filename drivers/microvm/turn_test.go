package microvm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolroom/toolroom/sandbox"
)

// slowMonitor boots a VM only when the test lets it, like a loaded machine.
type slowMonitor struct {
	monitor
	booting, fail chan struct{}
}

func (m *slowMonitor) version(context.Context) (string, error) { return "slow 1", nil }
func (m *slowMonitor) checkEmulation() error                   { return nil }

func (m *slowMonitor) boot(context.Context, machineSpec, *template) (*machine, error) {
	m.booting <- struct{}{}
	<-m.fail
	return nil, errors.New("it does not boot")
}

func TestACallerWhoseTimeIsOverDoesNotWaitForTheBootOfAnother(t *testing.T) {
	t.Parallel()
	folder, guest := t.TempDir(), os.Args[0]
	if err := os.WriteFile(filepath.Join(folder, manifestFile), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, modulesFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := checksum(guest)
	if err != nil {
		t.Fatal(err)
	}
	// The initial file system must exist, because this test binary may not be static, as making
	// one requires.
	if err := os.WriteFile(filepath.Join(folder, "initrd-"+digest(sum, "")), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := &slowMonitor{booting: make(chan struct{}), fail: make(chan struct{})}
	d := newDriver("microvm", m, Options{Folder: folder, Guest: guest})
	d.kvm = func() string { return "no KVM in this test" }
	first := make(chan error, 1)
	go func() {
		_, err := d.Start(context.Background(), sandbox.Spec{Guest: guest})
		first <- err
	}()
	<-m.booting
	late, cancel := context.WithCancelCause(t.Context())
	over := errors.New("its time is over")
	cancel(over)
	if _, err := d.Start(late, sandbox.Spec{Guest: guest}); !errors.Is(err, over) {
		t.Errorf("the second: %v", err)
	}
	if end, err := takeTurn(t.Context(), d.turnFor("a template")); err != nil {
		t.Error(err)
	} else if _, err := takeTurn(late, d.turnFor("a template")); !errors.Is(err, over) {
		t.Errorf("a template: %v", err)
	} else {
		end()
	}
	select {
	case err := <-first:
		t.Errorf("the first has not waited: %v", err)
	default:
	}
	close(m.fail)
	if err := <-first; err == nil {
		t.Error("the first has a VM")
	}
}
