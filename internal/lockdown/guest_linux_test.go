//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guest is what runs inside: the attacks, or something that uses up a resource.
func guest(args []string) int {
	switch args[0] {
	case "attack":
		failures := map[string]string{}
		for name, attack := range attacks(args[1:]) {
			failures[name] = "SUCCEEDED"
			if err := attack(); err != nil {
				failures[name] = err.Error()
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(failures); err != nil {
			return 1
		}
		return 0
	case "x32":
		syscall.RawSyscall(unix.SYS_GETPID|0x40000000, 0, 0, 0)
		return 0
	default:
		return use(args)
	}
}

// addresses are what is outside: a TCP server, an abstract and a plain socket, a
// secret file.
type addresses struct{ tcp, abstract, socket, secret string }

// attacks are the ways out that are tried; each returns nil when it succeeded.
func attacks(args []string) map[string]func() error {
	a := addresses{args[0], args[1], args[2], args[3]}
	list := map[string]func() error{}
	for _, more := range []map[string]func() error{mountAttacks(), fileAttacks(a), processAttacks(), networkAttacks(a), kernelAttacks(), rightAttacks()} {
		for name, attack := range more {
			list[name] = attack
		}
	}
	return list
}

func try(nr uintptr, args ...uintptr) func() error {
	return func() error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func str(s string) uintptr {
	b, _ := syscall.BytePtrFromString(s)
	kept = append(kept, b)
	return uintptr(unsafe.Pointer(b))
}

// kept holds what addresses were taken of.
var kept []any

func write(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func create(path string) func() error {
	return func() error { return os.WriteFile(path, nil, 0o600) }
}

func read(path string) func() error {
	return func() error {
		_, err := os.ReadFile(path)
		return err
	}
}

func see(path string) func() error {
	return func() error {
		_, err := os.Stat(path)
		return err
	}
}

func mountAttacks() map[string]func() error {
	return map[string]func() error{
		"mount a tmpfs":         func() error { return unix.Mount("tmpfs", "/tmp", "tmpfs", 0, "") },
		"mount a proc":          func() error { return unix.Mount("proc", "/tmp", "proc", 0, "") },
		"mount cgroups":         func() error { return unix.Mount("cgroup", "/tmp", "cgroup", 0, "memory") },
		"make root writable":    func() error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"make /usr writable":    func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount /proc":         func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"pivot the root":        func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"change the root":       func() error { return unix.Chroot("/tmp") },
		"open a mount tree":     try(unix.SYS_OPEN_TREE, ^uintptr(99), str("/"), unix.OPEN_TREE_CLONE),
		"open a file system":    try(unix.SYS_FSOPEN, str("tmpfs"), 0),
		"set mount attributes":  func() error { return unix.MountSetattr(unix.AT_FDCWD, "/", 0, &unix.MountAttr{}) },
		"move a mount":          func() error { return unix.MoveMount(unix.AT_FDCWD, "/usr", unix.AT_FDCWD, "/tmp", 0) },
		"open by handle":        try(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), 0, 0),
		"ask for a file handle": try(unix.SYS_NAME_TO_HANDLE_AT, ^uintptr(99), str("/"), 0, 0, 0),
		"swap on a file":        try(unix.SYS_SWAPON, str("/tmp/x"), 0),
		"set a quota":           try(unix.SYS_QUOTACTL, 0, 0, 0, 0),
		"unshare mounts":        func() error { return unix.Unshare(unix.CLONE_NEWNS) },
	}
}

func fileAttacks(a addresses) map[string]func() error {
	node := func(mode uint32, device uint64) func() error {
		return func() error { return unix.Mknod("/tmp/node", mode|0o600, int(device)) }
	}
	list := map[string]func() error{
		"make /dev/mem":             node(unix.S_IFCHR, unix.Mkdev(1, 1)),
		"make a block device":       node(unix.S_IFBLK, unix.Mkdev(8, 0)),
		"make a null of one's own":  node(unix.S_IFCHR, unix.Mkdev(1, 3)),
		"make an overlay whiteout":  node(unix.S_IFCHR, 0),
		"write into /":              create("/x"),
		"write into /usr":           create("/usr/x"),
		"write into /etc":           create("/etc/x"),
		"write into /dev":           create("/dev/x"),
		"write into /proc/sys":      write("/proc/sys/kernel/core_pattern"),
		"write /proc/sysrq-trigger": write("/proc/sysrq-trigger"),
		"read /proc/kcore":          read("/proc/kcore"),
		"read /proc/keys":           read("/proc/keys"),
		"read /proc/kallsyms":       read("/proc/kallsyms"),
		"read /proc/1/environ":      read("/proc/1/environ"),
		"write /proc/1/mem":         write("/proc/1/mem"),
		"look into /proc/1/root":    see("/proc/1/root/home"),
		"look into /proc/1/fd":      func() error { _, err := os.ReadDir("/proc/1/fd"); return err },
		"write /sys":                write("/sys/kernel/uevent_helper"),
		"see a cgroup tree":         see("/sys/fs/cgroup"),
		"read /etc/shadow":          read("/etc/shadow"),
		"see /root":                 func() error { _, err := os.ReadDir("/root"); return err },
		"see /home":                 func() error { _, err := os.ReadDir("/home"); return err },
		"see /var":                  func() error { _, err := os.ReadDir("/var"); return err },
		"read a secret of the host": read(a.secret),
		"read it by a symbolic link": func() error {
			_ = os.Symlink(a.secret, "/tmp/link")
			return read("/tmp/link")()
		},
		"read it by a hard link":    func() error { return os.Link(a.secret, "/tmp/hard") },
		"read the server's environ": read("/proc/" + os.Getenv("SERVER") + "/environ"),
		"read the parent's environ": read(fmt.Sprintf("/proc/%d/environ", os.Getppid())),
		"find a secret in the environment": func() error {
			if strings.Contains(strings.Join(os.Environ(), " "), "swordfish") {
				return nil
			}
			return errors.New("not there")
		},
		"find an open file of the server": func() error {
			for fd := 3; fd < 1024; fd++ {
				target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
				if err == nil && !strings.HasPrefix(target, "anon_inode:") && !strings.HasPrefix(target, "/proc/") {
					return nil
				}
				buffer := make([]byte, 1<<16)
				if n, _ := unix.Pread(fd, buffer, 0); strings.Contains(string(buffer[:max(n, 0)]), "swordfish") {
					return nil
				}
			}
			return errors.New("none")
		},
	}
	for _, device := range []string{"mem", "kmsg", "kvm", "tty", "console", "sda", "vda", "fuse", "net/tun", "loop-control", "port", "ptmx", "userfaultfd"} {
		list["open /dev/"+device] = func() error {
			f, err := os.OpenFile("/dev/"+device, os.O_RDWR, 0)
			if err == nil {
				f.Close()
			}
			return err
		}
	}
	return list
}

func processAttacks() map[string]func() error {
	server, _ := strconv.Atoi(os.Getenv("SERVER"))
	return map[string]func() error{
		"trace the server":     func() error { return unix.PtraceAttach(server) },
		"trace the parent":     func() error { return unix.PtraceAttach(os.Getppid()) },
		"be traced":            try(unix.SYS_PTRACE, unix.PTRACE_TRACEME),
		"read others' memory":  try(unix.SYS_PROCESS_VM_READV, uintptr(os.Getppid()), 0, 0, 0, 0, 0),
		"write others' memory": try(unix.SYS_PROCESS_VM_WRITEV, uintptr(os.Getppid()), 0, 0, 0, 0, 0),
		"compare processes":    try(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(os.Getppid()), 0, 0, 0),
		"take another's file": func() error {
			fd, err := unix.PidfdOpen(os.Getppid(), 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 3, 0)
			return err
		},
		"signal the server":     func() error { return unix.Kill(server, unix.SIGTERM) },
		"stop the server":       func() error { return unix.Kill(server, unix.SIGSTOP) },
		"signal the parent":     func() error { return unix.Kill(os.Getppid(), unix.SIGTERM) },
		"limit the parent":      func() error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) },
		"move others' priority": func() error { return unix.Setpriority(unix.PRIO_PROCESS, os.Getppid(), 19) },
		"move others' affinity": func() error { return unix.SchedSetaffinity(os.Getppid(), &unix.CPUSet{1}) },
		"raise its own limit": func() error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		},
		"move others' pages":   try(unix.SYS_MOVE_PAGES, uintptr(os.Getppid()), 0, 0, 0, 0, 0),
		"advise others":        try(unix.SYS_PROCESS_MADVISE, 0, 0, 0, 0, 0),
		"push to the terminal": try(unix.SYS_IOCTL, 0, unix.TIOCSTI, str("x")),
		"the same, high bits":  try(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, str("x")),
	}
}

func networkAttacks(a addresses) map[string]func() error {
	dial := func(network, address string) func() error {
		return func() error {
			c, err := net.DialTimeout(network, address, 2*time.Second)
			if err != nil {
				return err
			}
			defer c.Close()
			// UDP connects to nobody: it counts once a packet has left.
			_, err = c.Write([]byte{0})
			return err
		}
	}
	socket := func(family, kind, protocol int) func() error {
		return func() error { _, err := unix.Socket(family, kind, protocol); return err }
	}
	return map[string]func() error{
		"connect to the host":             dial("tcp", a.tcp),
		"connect over IPv6":               dial("tcp", "[::1]:80"),
		"connect to the metadata address": dial("tcp", "169.254.169.254:80"),
		"send a DNS question":             dial("udp", "8.8.8.8:53"),
		"look a name up":                  func() error { _, err := net.LookupHost("example.com"); return err },
		"listen":                          func() error { _, err := net.Listen("tcp", "0.0.0.0:0"); return err },
		"connect to an abstract socket":   dial("unix", a.abstract),
		"connect to a socket of the host": dial("unix", a.socket),
		"connect to Docker":               dial("unix", "/var/run/docker.sock"),
		"connect to Docker in /run":       dial("unix", "/run/docker.sock"),
		"connect to the system bus":       dial("unix", "/run/dbus/system_bus_socket"),
		"make a raw socket":               socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"make a packet socket":            socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0),
		"make a netlink socket":           socket(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_ROUTE),
		"make a VM socket":                socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"make a crypto socket":            socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"make a Bluetooth socket":         socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0),
		"make a raw Unix socket":          socket(unix.AF_UNIX, unix.SOCK_RAW, 0),
		"make an internet socket, high bits": func() error {
			return try(unix.SYS_SOCKET, unix.AF_PACKET|1<<32, unix.SOCK_RAW, 0)()
		},
	}
}

func kernelAttacks() map[string]func() error {
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

func rightAttacks() map[string]func() error {
	return map[string]func() error{
		"become root":         func() error { return unix.Setresuid(0, 0, 0) },
		"become another user": func() error { return unix.Setresuid(1000, 1000, 1000) },
		"join root's group":   func() error { return unix.Setresgid(0, 0, 0) },
		"join groups":         func() error { return unix.Setgroups([]int{0}) },
		"raise capabilities": func() error {
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
		},
		"have a capability": func() error {
			var data [2]unix.CapUserData
			if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
				return err
			}
			if data[0] == (unix.CapUserData{}) && data[1] == (unix.CapUserData{}) {
				return errors.New("none")
			}
			return nil
		},
		"undo no_new_privs": func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0) },
		"have no filter": func() error {
			mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
			if err == nil && mode != unix.SECCOMP_MODE_FILTER {
				return nil
			}
			return errors.New("there is one")
		},
		"gain by a set-user-ID program": func() error {
			out, err := exec.Command(filepath.Join(filepath.Dir(os.Getenv("SELF")), "suid"), suidRole).Output()
			if err != nil {
				return err
			}
			if string(out) != strconv.Itoa(Nobody) {
				return nil
			}
			return errors.New("it ran as nobody")
		},
		"be root": func() error {
			if os.Getuid() == 0 || os.Geteuid() == 0 || os.Getegid() == 0 {
				return nil
			}
			return errors.New("no")
		},
	}
}
