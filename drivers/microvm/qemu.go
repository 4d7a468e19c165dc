package microvm

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/toolroom/toolroom/internal/proc"
)

// qemu runs VMs of QEMU's machine type microvm
// (https://www.qemu.org/docs/master/system/i386/microvm.html), with KVM or in QEMU's
// emulation.
type qemu struct {
	program string
	khz     int // frequency of the time stamp counter
}

// Descriptors of a QEMU process.
const (
	agentFD = 3
	qmpFD   = 4
)

func (q *qemu) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, q.program, "--version").Output()
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.Replace(strings.TrimSpace(line), "emulator version ", "", 1), nil
}

func (q *qemu) install() string {
	return "apt-get install --no-install-recommends qemu-system-x86 (or your system's package with qemu-system-x86_64)"
}

func (q *qemu) checkEmulation() error { return nil }

// args returns QEMU's arguments for a VM whose memory is in the file memory, or anonymous
// if memory is empty.
func (q *qemu) args(s machineSpec, memory string, shared bool) []string {
	kernel := "console=ttyS0 quiet reboot=t panic=-1 "
	accel, cpu := "kvm", "host"
	if !s.kvm {
		// On a busy machine emulated timers are late, and the kernel, which calibrates
		// itself by them, would hang at random.
		accel, cpu = "tcg", "max"
		kernel += fmt.Sprintf("tsc_early_khz=%d tsc=reliable lpj=8000000 ", q.khz)
	}
	mib := strconv.FormatInt(s.memory>>20, 10)
	backend := "memory-backend-ram,id=mem,size=" + mib + "M"
	if memory != "" {
		backend = "memory-backend-file,id=mem,size=" + mib + "M,share=" + onOff(shared) + ",mem-path=" + escape(memory)
	}
	args := []string{
		"-M", "microvm,x-option-roms=off,pit=on,pic=on,rtc=on,memory-backend=mem", "-object", backend,
		"-accel", accel, "-cpu", cpu, "-m", mib, "-smp", strconv.Itoa(s.cpus),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", s.kernel, "-initrd", s.initrd, "-append", kernel + s.initArgs(),
		"-chardev", "file,id=console,path=/proc/self/fd/2", "-serial", "chardev:console",
		"-chardev", "socket,id=qmp,fd=" + strconv.Itoa(qmpFD), "-mon", "chardev=qmp,mode=control",
		"-chardev", "socket,id=agent,fd=" + strconv.Itoa(agentFD),
		"-device", "virtio-serial-device", "-device", "virtserialport,chardev=agent,name=agent",
		"-drive", "id=disk,format=raw,if=none,readonly=on,file=" + escape(s.disk), "-device", "virtio-blk-device,drive=disk",
	}
	return append(args, lockdownArgs(s.kvm)...)
}

// lockdownArgs returns the arguments that restrict QEMU, so that a guest that breaks out of
// its VM is in an unprivileged process that can start nothing.
func lockdownArgs(kvm bool) []string {
	const filter = "on,obsolete=deny,spawn=deny,resourcecontrol=deny"
	if os.Geteuid() != 0 || kvm { // QEMU needs /dev/kvm, which an unprivileged user may not open
		return []string{"-sandbox", filter + ",elevateprivileges=deny"}
	}
	// elevateprivileges=deny would prevent changing the user.
	return []string{"-sandbox", filter, "-runas", "65534:65534"}
}

// escape escapes commas in a value of QEMU's options.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func (q *qemu) boot(ctx context.Context, s machineSpec, t *template) (*machine, error) {
	if t == nil {
		return q.start(ctx, s, q.args(s, "", false))
	}
	return q.start(ctx, s, q.args(s, t.memory, true))
}

// start starts QEMU and connects to its monitor.
func (q *qemu) start(ctx context.Context, s machineSpec, args []string) (*machine, error) {
	agent, theirAgent, err := proc.SocketPair(syscall.SOCK_STREAM)
	if err != nil {
		return nil, err
	}
	defer theirAgent.Close()
	control, theirControl, err := proc.SocketPair(syscall.SOCK_STREAM)
	if err != nil {
		agent.Close()
		return nil, err
	}
	defer theirControl.Close()
	m := &machine{console: newConsole(), stream: agent, release: func() { control.Close() }}
	m.process, err = proc.Start(proc.Spec{
		Command: q.program, Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Owner: s.owner, Stderr: m.console,
		Files: []*os.File{theirAgent, theirControl},
	})
	if err != nil {
		agent.Close()
		control.Close()
		return nil, err
	}
	theirControl.Close() // otherwise the end of QEMU would not be seen
	theirAgent.Close()
	if m.control, err = newQMP(ctx, control); err != nil {
		defer m.kill()
		return nil, m.explain(ctx, err)
	}
	return m, nil
}

// snapshot stops the VM, whose memory is in a file that QEMU maps shared, and writes the
// rest of its state to another file.
func (q *qemu) snapshot(ctx context.Context, m *machine, t *template) error {
	file, err := os.OpenFile(t.state, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := m.control.do(ctx, "stop", nil, nil); err != nil {
		return err
	}
	return m.control.migrate(ctx, "migrate", file)
}

func (q *qemu) restore(ctx context.Context, s machineSpec, t *template) (*machine, error) {
	state, err := os.Open(t.state)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	m, err := q.start(ctx, s, append(q.args(s, t.memory, false), "-incoming", "defer", "-S"))
	if err != nil {
		return nil, err
	}
	err = m.control.migrate(ctx, "migrate-incoming", state)
	if err == nil {
		err = m.control.do(ctx, "cont", nil, nil)
	}
	if err != nil {
		defer m.kill()
		return nil, m.explain(ctx, err)
	}
	return m, nil
}
