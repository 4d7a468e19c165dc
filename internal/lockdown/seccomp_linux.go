//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter is a program over struct seccomp_data (seccomp(2)): the number of the
// call at 0, the architecture at 4, six arguments of 64 bits from 16 on.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

const (
	allow        = unix.SECCOMP_RET_ALLOW
	refuse       = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown      = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	noFamily     = unix.SECCOMP_RET_ERRNO | uint32(unix.EAFNOSUPPORT)
	killsProcess = unix.SECCOMP_RET_KILL_PROCESS
)

type filter []unix.SockFilter

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

// loadArg loads the low half of an argument (both systems are little-endian):
// the kernel itself looks at no more of flags, families and ioctl numbers.
func loadArg(n uint32) unix.SockFilter { return load(offsetArgs + 8*n) }

// loadArgHigh loads the high half of an argument.
func loadArgHigh(n uint32) unix.SockFilter { return load(offsetArgs + 8*n + 4) }

func answer(action uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
}

func jumpEqual(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func jumpAnyBit(k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

func and(k uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: k}
}

// newFilter refuses whatever does not come through this architecture's own
// table of calls: a 32-bit or x32 call has other numbers.
func newFilter() filter {
	f := filter{
		load(offsetArch), jumpEqual(auditArch, 1, 0), answer(killsProcess),
		load(offsetNumber),
	}
	if x32Bit != 0 {
		f = append(f, jumpAnyBit(x32Bit, 0, 1), answer(killsProcess))
	}
	return f
}

// on answers one call with what body answers; body must answer.
func (f *filter) on(number int, body ...unix.SockFilter) {
	*f = append(*f, jumpEqual(uint32(number), 0, uint8(len(body))))
	*f = append(*f, body...)
}

func (f *filter) all(action uint32, numbers []int) {
	for _, n := range numbers {
		f.on(n, answer(action))
	}
}

// newNamespaces are the flags of clone and unshare that make namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// surroundings are what the filters depend on.
type surroundings struct {
	network bool
	// alone says that the program has a root of its own, and so no Unix sockets of
	// the host in reach.
	alone bool
}

func (s surroundings) families() []uint32 {
	var families []uint32
	if s.alone {
		families = append(families, unix.AF_UNIX)
	}
	if s.network {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	return families
}

// byArgument are the calls whose arguments decide, alike in both filters.
func (f *filter) byArgument(s surroundings) {
	f.on(unix.SYS_CLONE, loadArg(0), jumpAnyBit(newNamespaces, 0, 1), answer(refuse), answer(allow))
	// The flags of clone3 are in memory, which a filter cannot see: with this
	// answer the C libraries take clone.
	f.on(unix.SYS_CLONE3, answer(unknown))
	// Only the question for the personality, and the plain one.
	f.on(unix.SYS_PERSONALITY, loadArg(0), jumpEqual(0, 1, 0), jumpEqual(0xffffffff, 0, 1), answer(allow), answer(refuse))
	// To put characters into a terminal's input.
	f.on(unix.SYS_IOCTL, loadArg(1), jumpEqual(unix.TIOCSTI, 1, 0), jumpEqual(tiocLinux, 0, 1), answer(refuse), answer(allow))

	// An overlay's mark for a removed file is a device that everybody may make.
	f.on(unix.SYS_MKNODAT, noDevice(2)...)
	f.onLegacy()

	families := s.families()
	body := []unix.SockFilter{loadArg(0)}
	for i, family := range families {
		// Past the families that are left, and the refusal.
		body = append(body, jumpEqual(family, uint8(len(families)-i), 0))
	}
	body = append(body, answer(noFamily),
		loadArg(1), and(0xf), jumpEqual(unix.SOCK_RAW, 0, 1), answer(refuse), answer(allow))
	f.on(unix.SYS_SOCKET, body...)

	// Processes of one user may set one another's limits and priorities: init is
	// such a process, and without namespaces the server is.
	for _, setter := range []int{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR} {
		f.on(setter, loadArg(0), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
	}
	for _, setter := range []int{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		f.on(setter, loadArg(1), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
	}
	f.on(unix.SYS_PRLIMIT64, loadArg(0), jumpEqual(0, 4, 0), // itself, or only a question
		loadArg(2), jumpEqual(0, 0, 3), loadArgHigh(2), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
}

// noDevice allows to make any node but a device; the mode is argument n.
func noDevice(n uint32) []unix.SockFilter {
	return []unix.SockFilter{
		loadArg(n), and(unix.S_IFMT), jumpEqual(unix.S_IFCHR, 1, 0), jumpEqual(unix.S_IFBLK, 0, 1), answer(refuse), answer(allow),
	}
}

// standardFilter refuses what is dangerous and allows the rest.
func standardFilter(s surroundings) filter {
	f := newFilter()
	f.byArgument(s)
	f.all(refuse, dangerous)
	f.all(unknown, dangerousNew)
	return append(f, answer(allow))
}

// hardenedFilter allows what interpreters and command-line programs need and
// knows nothing else, so that programs take the older way where there is one.
func hardenedFilter(s surroundings) filter {
	f := newFilter()
	f.byArgument(s)
	f.all(allow, ordinary)
	f.all(allow, ordinaryLegacy)
	f.all(refuse, dangerous)
	return append(f, answer(unknown))
}

// install puts the filter on this thread, or with SECCOMP_FILTER_FLAG_TSYNC on
// all threads of the process, for ever. The thread must have no_new_privs.
func (f filter) install(flags uintptr) error {
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("seccomp: thread %d could not be given the filter", thread)
	}
	return nil
}

// dangerous are calls that no program inside has a good use for: they reach the
// kernel's rarely walked paths, other processes, or the machine as a whole.
var dangerous = []int{
	// Mounts and roots.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_ACCT,
	// Namespaces.
	unix.SYS_UNSHARE, unix.SYS_SETNS,
	// Other processes.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
	unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// The kernel.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_FANOTIFY_INIT, unix.SYS_LOOKUP_DCOOKIE, unix.SYS_NFSSERVCTL, unix.SYS_VHANGUP,
	// Keys.
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	// The machine.
	unix.SYS_REBOOT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX, unix.SYS_SYSLOG,
}

// dangerousNew are such calls of newer kernels: programs try them and take
// another way when there is no such call.
var dangerousNew = []int{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_QUOTACTL_FD,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_MEMFD_SECRET,
	unix.SYS_LSM_SET_SELF_ATTR,
}
