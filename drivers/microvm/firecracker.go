package microvm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/toolroom/toolroom/internal/guest/vm"
	"github.com/toolroom/toolroom/internal/proc"
)

// firecracker runs VMs with Firecracker 1.8 or later, which describes devices by ACPI, as
// Debian's kernel requires.
type firecracker struct{ program string }

// Files in the folder of a VM, which is Firecracker's working folder. Their names must be
// relative, because a snapshot contains the path of the socket.
const (
	apiSocket   = "api.sock"
	vsockSocket = "vsock.sock"
	vsockPort   = 52
	firstCID    = 3 // the VM's address, used only by its own Firecracker (vsock(7))
)

func (f *firecracker) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, f.program, "--version").Output()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line), err
}

func (f *firecracker) install() string {
	return "install firecracker 1.8 or later from https://github.com/firecracker-microvm/firecracker/releases into the search path"
}

func (f *firecracker) checkEmulation() error { return errors.New("firecracker needs KVM") }

func (f *firecracker) boot(ctx context.Context, s machineSpec, _ *template) (*machine, error) {
	return f.start(ctx, s, func(api *firecrackerAPI) error {
		for _, step := range []struct {
			path string
			body any
		}{
			{"/machine-config", machineConfig{VCPUs: s.cpus, Memory: s.memory >> 20}},
			{"/boot-source", bootSource{
				Kernel: s.kernel, Initrd: s.initrd,
				Args: "console=ttyS0 quiet reboot=k panic=-1 pci=off " + vm.VsockOption + strconv.Itoa(vsockPort) + " " + s.initArgs(),
			}},
			{"/drives/disk", drive{ID: "disk", Path: s.disk, ReadOnly: true}},
			{"/vsock", vsock{CID: firstCID, Path: vsockSocket}},
			{"/actions", action{"InstanceStart"}},
		} {
			if err := api.put(ctx, step.path, step.body); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *firecracker) snapshot(ctx context.Context, m *machine, t *template) error {
	api := newFirecrackerAPI(filepath.Join(m.folder, apiSocket))
	if err := api.patch(ctx, "/vm", vmState{"Paused"}); err != nil {
		return err
	}
	return api.put(ctx, "/snapshot/create", snapshotCreate{Type: "Full", State: t.state, Memory: t.memory})
}

func (f *firecracker) restore(ctx context.Context, s machineSpec, t *template) (*machine, error) {
	m, err := f.start(ctx, s, func(api *firecrackerAPI) error {
		return api.put(ctx, "/snapshot/load", snapshotLoad{State: t.state, Memory: memoryBackend{"File", t.memory}, Resume: true})
	})
	if err != nil {
		return nil, err
	}
	// The snapshot has broken the VM's connection.
	if err := m.awaitReady(ctx); err != nil {
		defer m.kill()
		return nil, m.explain(ctx, err)
	}
	return m, nil
}

// start starts a Firecracker process, configures it with setUp, and connects to the VM.
func (f *firecracker) start(ctx context.Context, s machineSpec, setUp func(*firecrackerAPI) error) (*machine, error) {
	proc.CleanFolders("", false)
	folder, err := proc.MkdirTemp("", "vm")
	if err != nil {
		return nil, err
	}
	m := &machine{console: newConsole(), folder: folder, release: func() { os.RemoveAll(folder) }}
	m.process, err = proc.Start(proc.Spec{
		Command: f.program, Args: []string{"--api-sock", apiSocket}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: folder,
		Owner: s.owner, Stderr: m.console,
	})
	if err != nil {
		m.release()
		return nil, err
	}
	go func() { _, _ = io.Copy(m.console, m.process.Stdout) }() // the VM's console
	api := newFirecrackerAPI(filepath.Join(folder, apiSocket))
	err = m.retry(ctx, func() error { return api.ping(ctx) })
	if err == nil {
		err = setUp(api)
	}
	if err == nil {
		err = m.retry(ctx, func() (err error) {
			m.stream, err = dialVsock(ctx, filepath.Join(folder, vsockSocket))
			return err
		})
	}
	if err != nil {
		defer m.kill()
		return nil, m.explain(ctx, err)
	}
	return m, nil
}

// retry calls try until it succeeds, because a socket appears some time after its process.
func (m *machine) retry(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-m.process.Done():
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// dialVsock connects to the VM's port through Firecracker's socket (Firecracker's
// docs/vsock.md): it sends CONNECT and the port, and expects OK.
func dialVsock(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	defer deadline(ctx, conn)()
	answer := ""
	if _, err = fmt.Fprintf(conn, "CONNECT %d\n", vsockPort); err == nil {
		// The VM sends at once, so do not read beyond the line.
		answer, err = readLine(conn)
	}
	if err == nil && !strings.HasPrefix(answer, "OK ") {
		err = fmt.Errorf("the VM's socket answers %q", answer)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// readLine reads a short line, and no byte beyond it.
func readLine(r io.Reader) (string, error) {
	line := make([]byte, 32)
	for i := range line {
		if _, err := io.ReadFull(r, line[i:i+1]); err != nil {
			return "", err
		}
		if line[i] == '\n' {
			return string(line[:i]), nil
		}
	}
	return "", errors.New("the VM's socket sends a line that is too long")
}
