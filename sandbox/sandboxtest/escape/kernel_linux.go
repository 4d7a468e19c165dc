//go:build linux && (amd64 || arm64)

package escape

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func kernels() map[string]func() error {
	clone := func(flags uintptr) func() error {
		return func() error {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return nil
		}
	}
	return map[string]func() error{
		"add a key":                try(unix.SYS_ADD_KEY, str("user"), str("name"), str("x"), 1, ^uintptr(2)),
		"request a key":            try(unix.SYS_REQUEST_KEY, str("user"), str("name"), 0, 0),
		"read a keyring":           try(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, ^uintptr(3), 0),
		"set up an io_uring":       try(unix.SYS_IO_URING_SETUP, 8, str(strings.Repeat("\x01", 120))),
		"catch page faults":        try(unix.SYS_USERFAULTFD, unix.O_CLOEXEC),
		"load a BPF program":       try(unix.SYS_BPF, 0, 0, 0),
		"measure performance":      try(unix.SYS_PERF_EVENT_OPEN, str(strings.Repeat("\x01", 120)), 0, ^uintptr(0), ^uintptr(0), 0),
		"make a user namespace":    clone(unix.CLONE_NEWUSER),
		"make a network namespace": clone(unix.CLONE_NEWNET),
		"make a cgroup namespace":  clone(unix.CLONE_NEWCGROUP),
		"unshare users":            func() error { return unix.Unshare(unix.CLONE_NEWUSER) },
		"unshare cgroups":          func() error { return unix.Unshare(unix.CLONE_NEWCGROUP) },
		"enter a namespace":        func() error { return unix.Setns(0, unix.CLONE_NEWNET) },
		"clone by clone3":          try(unix.SYS_CLONE3, str(strings.Repeat("\x00", 88)), 88),
		"load a kernel":            try(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"load a module":            try(unix.SYS_INIT_MODULE, 0, 0, str("")),
		"load a module's file":     try(unix.SYS_FINIT_MODULE, 0, str(""), 0),
		"remove a module":          try(unix.SYS_DELETE_MODULE, str("x"), 0),
		"reboot":                   try(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, unix.LINUX_REBOOT_CMD_CAD_ON, 0),
		"set the clock":            func() error { return unix.Settimeofday(&unix.Timeval{Sec: time.Now().Unix()}) },
		"adjust the clock":         try(unix.SYS_ADJTIMEX, str(strings.Repeat("\x01", 256))),
		"set the host name":        func() error { return unix.Sethostname([]byte("pwned")) },
		"read the kernel's log":    func() error { _, err := unix.Klogctl(unix.SYSLOG_ACTION_READ_ALL, make([]byte, 64)); return err },
		"keep addresses fixed":     try(unix.SYS_PERSONALITY, 0x0040000),
		"watch all files":          func() error { _, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF, 0); return err },
		"account processes":        try(unix.SYS_ACCT, 0),
	}
}

func cgroups() map[string]func() error {
	list := map[string]func() error{}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"} {
		list["leave "+root] = func() error { return os.WriteFile(root+"/cgroup.procs", []byte("0"), 0) }
		list["make a cgroup in "+root] = func() error { return os.Mkdir(root+"/escape", 0o755) }
		list["set the release agent of "+root] = write(root + "/release_agent")
	}
	list["raise its own memory"] = func() error {
		return errors.Join(write("/sys/fs/cgroup/memory/memory.limit_in_bytes")(), write("/sys/fs/cgroup/memory.max")())
	}
	return list
}
