package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/internal/lockdown"
)

// Main is the first process of a virtual machine. It does not return: it switches the
// VM off.
func Main() int {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "toolroom-guest vm is the first process of a virtual machine, and nothing else")
		return 2
	}
	report, err := run()
	if err != nil {
		report = Report{Code: 1, Error: err.Error()}
	}
	line, _ := json.Marshal(report) // cannot fail: strings and numbers only
	fmt.Fprintf(os.Stderr, "\n%s%s\n", ReportMark, line)
	// Both QEMU and Firecracker treat a restart as the end, because they are started
	// without permission to restart.
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	return 1
}

func run() (Report, error) {
	if err := prepare(); err != nil {
		return Report{}, err
	}
	stream, settings, err := meet()
	if err != nil {
		return Report{}, err
	}
	if err := settings.refresh(); err != nil {
		return Report{}, err
	}
	if err := settings.mountWritable(); err != nil {
		return Report{}, err
	}
	return settings.serve(stream)
}

// prepare does everything that is the same for every run.
func prepare() error {
	for _, m := range []mount{
		{"proc", "/proc", "proc", 0, ""},
		{"sysfs", "/sys", "sysfs", 0, ""},
		{"devtmpfs", "/dev", "devtmpfs", 0, ""},
	} {
		if err := m.make(); err != nil {
			return err
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := (mount{"cgroup2", "/cgroup", "cgroup2", 0, ""}).make(); err != nil {
		return err
	}
	if err := os.WriteFile("/cgroup/cgroup.subtree_control", []byte("+cpu +memory +pids"), 0); err != nil {
		return fmt.Errorf("the VM's kernel lacks cgroup controllers: %w", err)
	}
	for _, s := range []struct{ name, value string }{
		{"user/max_user_namespaces", "0"},
		{"kernel/unprivileged_bpf_disabled", "2"},
		{"kernel/kptr_restrict", "2"},
		{"kernel/dmesg_restrict", "1"},
		{"kernel/perf_event_paranoid", "3"},
		{"vm/unprivileged_userfaultfd", "0"},
		{"kernel/modules_disabled", "1"},
	} {
		// A kernel built without one of these features needs no restriction.
		if err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("harden the VM's kernel: %w", err)
		}
	}
	if err := unix.Sethostname([]byte("toolroom")); err != nil {
		return err
	}
	if err := lockdown.LoopbackUp(); err != nil {
		return fmt.Errorf("bring up the loopback: %w", err)
	}
	return mountRoot()
}

// loadModules loads the modules that the image lists. It loads those of virtual
// sockets only in a VM that has one, because an emulated VM takes long to load them.
func loadModules() error {
	_, vsock, err := vsockPort()
	if err != nil {
		return err
	}
	list, err := os.ReadFile(ModulesFile)
	if os.IsNotExist(err) { // everything is built in
		return nil
	}
	if err != nil {
		return err
	}
	for path := range strings.Lines(string(list)) {
		if !vsock && strings.Contains(path, "vsock") {
			continue
		}
		if err := loadModule(strings.TrimSpace(path)); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	flags := 0
	if !strings.HasSuffix(path, ".ko") {
		flags = unix.MODULE_INIT_COMPRESSED_FILE
	}
	if err := unix.FinitModule(int(f.Fd()), "", flags); err != nil && err != unix.EEXIST {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}

// refresh sets what a snapshot cannot contain: the time, and the VM's own randomness.
func (s Settings) refresh() error {
	now := unix.NsecToTimeval(s.Now.UnixNano())
	if err := unix.Settimeofday(&now); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return addEntropy(s.Entropy)
}

// deviceTimeout is the time that a device may take to appear: drivers find their
// devices in the background.
const deviceTimeout = 20 * time.Second

// await calls try until it succeeds, or until deviceTimeout has passed.
func await(what string, try func() error) error {
	for deadline := time.Now().Add(deviceTimeout); ; time.Sleep(2 * time.Millisecond) {
		err := try()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}
