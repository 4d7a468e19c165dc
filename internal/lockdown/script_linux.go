//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// script returns the system calls that the program's process makes, one after the
// other, to give up its rights before it executes the program.
func (p *plan) script() (*script, error) {
	s := &script{}
	p.files(s)
	s.try("setsid", unix.SYS_SETSID)
	if p.Terminal {
		s.add("take the terminal", unix.SYS_IOCTL, 0, unix.TIOCSCTTY, 0)
	}
	s.add("umask", unix.SYS_UMASK, 0o22)
	s.add("chdir "+p.Dir, unix.SYS_CHDIR, s.cString(p.Dir))
	for _, l := range p.Rlimits {
		if l.Resource == unix.RLIMIT_NPROC {
			l.Value += uint64(max(p.threads, threads()))
		}
		limit := unix.Rlimit{Cur: l.Value, Max: l.Value}
		if l.Resource == unix.RLIMIT_CPU {
			limit.Max++ // SIGXCPU, which names the reason, comes first; at Max the signal is SIGKILL
		}
		s.add(fmt.Sprintf("limit %d", l.Resource), unix.SYS_PRLIMIT64, 0, uintptr(l.Resource), pointer(s, &limit))
	}
	p.capabilities(s)
	s.add("no_new_privs", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1)
	if p.Landlock > 0 {
		rules, err := p.rules()
		if err != nil {
			return nil, err
		}
		s.add("landlock", unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0)
	}
	none := uint64(0)
	s.add("sigprocmask", unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, pointer(s, &none), 0, 8)

	around := surroundings{network: p.Network || p.Loopback, alone: p.Namespaces}
	f := standardFilter(around)
	if p.Seccomp == Hardened {
		f = hardenedFilter(around)
	}
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	s.add("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, pointer(s, &program))
	if p.Probe {
		s.add("exit", unix.SYS_EXIT_GROUP, 0)
		return s, nil
	}
	s.add("execute "+p.Path, unix.SYS_EXECVE, s.cString(p.Path), s.cStrings(p.Args), s.cStrings(p.Env))
	return s, nil
}

// files moves the program's files to 3 and up, replacing the control file, and
// marks all others to be closed when the program is executed.
func (p *plan) files(s *script) {
	for i := range p.Files {
		from := uintptr(firstFile + i)
		s.add("dup3", unix.SYS_DUP3, from, from-1, 0)
	}
	s.add("close_range", unix.SYS_CLOSE_RANGE, uintptr(firstFile-1+p.Files), uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC)
}

// capabilities drops all capabilities, and the sets from which they could return.
// Without namespaces there are none to drop, and no right to drop the bounding set.
func (p *plan) capabilities(s *script) {
	for c := range uintptr(64) {
		s.try("drop capability", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c)
	}
	s.add("clear ambient capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	s.add("drop capabilities", unix.SYS_CAPSET, pointer(s, &header), pointer(s, &none[0]))
}

// rules returns the Landlock rules. With a root of its own they are a second layer
// behind the mounts; without one they are the only restriction on files.
func (p *plan) rules() (*ruleset, error) {
	r, err := newRuleset(p.Landlock, p.Network || p.Loopback)
	if err != nil {
		return nil, err
	}
	everything := ^uint64(landlockDevice)
	type right struct {
		path string
		set  uint64
	}
	var rights []right
	if p.Namespaces {
		rights = append(rights, right{"/", landlockRead}, right{WorkDir, everything}, right{"/tmp", everything}, right{"/dev/shm", everything})
	} else {
		rights = append(rights, right{p.Work, everything})
		for _, t := range p.Trees {
			rights = append(rights, right{t.Source, landlockRead})
		}
		if p.Etc {
			for _, name := range []string{"passwd", "group", "hosts", "nsswitch.conf"} {
				rights = append(rights, right{"/etc/" + name, landlockRead})
			}
		}
	}
	for _, t := range p.Trees {
		if t.Writable {
			rights = append(rights, right{t.Target, everything})
		}
	}
	for _, name := range devices {
		rights = append(rights, right{"/dev/" + name, unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE})
	}
	for _, right := range rights {
		if err := r.permit(right.path, right.set); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// threads returns the number of init's threads. They count towards the program's
// limit, because both have the same user in the same namespace. It returns 0 if
// there is no /proc.
func threads() int {
	tasks, _ := os.ReadDir("/proc/self/task")
	return len(tasks)
}
