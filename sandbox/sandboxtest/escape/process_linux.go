//go:build linux && (amd64 || arm64)

package escape

import (
	"os"

	"golang.org/x/sys/unix"
)

func processes(o Outside) map[string]func() error {
	return map[string]func() error{
		"trace the server":     func() error { return unix.PtraceAttach(o.Server) },
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
		// Signal 0 only checks the permission.
		"signal the server":     func() error { return unix.Kill(o.Server, 0) },
		"signal the parent":     func() error { return unix.Kill(os.Getppid(), 0) },
		"limit the parent":      func() error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_NOFILE, &unix.Rlimit{}, nil) },
		"move others' priority": func() error { return unix.Setpriority(unix.PRIO_PROCESS, os.Getppid(), 19) },
		"move others' affinity": func() error { return unix.SchedSetaffinity(os.Getppid(), &unix.CPUSet{1}) },
		"raise its own limit": func() error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		},
		"leave a core dump to the machine": func() error {
			// A handler of the machine gets it unless the limit is 1 (core(5) and fs/coredump.c).
			var l unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_CORE, &l); err != nil || l.Cur == 1 && l.Max == 1 {
				return unix.EPERM
			}
			return nil
		},
		"move others' pages":   try(unix.SYS_MOVE_PAGES, uintptr(os.Getppid()), 0, 0, 0, 0, 0),
		"advise others":        try(unix.SYS_PROCESS_MADVISE, 0, 0, 0, 0, 0),
		"push to the terminal": try(unix.SYS_IOCTL, 0, unix.TIOCSTI, str("x")),
		"the same, high bits":  try(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, str("x")),
	}
}
