//go:build amd64 || arm64

package lockdown

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter reads struct seccomp_data (seccomp(2)): the number of the call at 0, the
// architecture at 4, six arguments of 64 bits from 16 on.
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

// loadArg loads the low half of an argument (both architectures are
// little-endian): the kernel itself ignores the high half of flags, families and
// ioctl numbers.
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

// newFilter kills processes that make calls through another table than this
// architecture's own: 32-bit and x32 calls have other numbers.
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

// addCall handles one call with body, which must end in an answer.
func (f *filter) addCall(number int, body ...unix.SockFilter) {
	*f = append(*f, jumpEqual(uint32(number), 0, uint8(len(body))))
	*f = append(*f, body...)
}

func (f *filter) addCalls(action uint32, numbers []int) {
	for _, n := range numbers {
		f.addCall(n, answer(action))
	}
}

// newNamespaces are the flags of clone and unshare that make namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// surroundings are the properties of the sandbox that the filters depend on.
type surroundings struct {
	network bool
	// alone means that the program has its own root, and so cannot reach Unix sockets
	// of the host machine.
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

// addArgumentRules adds the calls whose arguments decide, which both filters share.
func (f *filter) addArgumentRules(s surroundings) {
	f.addCall(unix.SYS_CLONE, loadArg(0), jumpAnyBit(newNamespaces, 0, 1), answer(refuse), answer(allow))
	// The flags of clone3 are in memory, which a filter cannot read. C libraries fall
	// back to clone on ENOSYS.
	f.addCall(unix.SYS_CLONE3, answer(unknown))
	// Allow reading the personality, and setting the default one.
	f.addCall(unix.SYS_PERSONALITY, loadArg(0), jumpEqual(0, 1, 0), jumpEqual(0xffffffff, 0, 1), answer(allow), answer(refuse))
	// Forbid inserting characters into a terminal's input.
	f.addCall(unix.SYS_IOCTL, loadArg(1), jumpEqual(unix.TIOCSTI, 1, 0), jumpEqual(tiocLinux, 0, 1), answer(refuse), answer(allow))

	// An overlay file system marks a removed file by a device node that everybody may
	// make.
	f.addCall(unix.SYS_MKNODAT, noDevice(2)...)
	f.addLegacyCalls()

	families := s.families()
	body := []unix.SockFilter{loadArg(0)}
	for i, family := range families {
		// Jump over the remaining families and the refusal.
		body = append(body, jumpEqual(family, uint8(len(families)-i), 0))
	}
	body = append(body, answer(noFamily),
		loadArg(1), and(0xf), jumpEqual(unix.SOCK_RAW, 0, 1), answer(refuse), answer(allow))
	f.addCall(unix.SYS_SOCKET, body...)
	if !s.alone {
		f.addCall(unix.SYS_SOCKETPAIR, connectedPairs...)
	}

	// A process may change limits and priorities of other processes of its user: init
	// is one, and without namespaces the server is, too.
	for _, setter := range []int{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETATTR} {
		f.addCall(setter, loadArg(0), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
	}
	for _, setter := range []int{unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET} {
		f.addCall(setter, loadArg(1), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
	}
	f.addCall(unix.SYS_PRLIMIT64, loadArg(0), jumpEqual(0, 4, 0), // itself, or a query only
		loadArg(2), jumpEqual(0, 0, 3), loadArgHigh(2), jumpEqual(0, 0, 1), answer(allow), answer(refuse))
}

// connectedPairs allows pairs of Unix sockets that stay connected. A datagram socket of a
// pair, which the kernel also makes when asked for a raw one, can send to a named socket.
var connectedPairs = []unix.SockFilter{
	loadArg(0), jumpEqual(unix.AF_UNIX, 1, 0), answer(noFamily),
	loadArg(1), and(0xf), jumpEqual(unix.SOCK_STREAM, 1, 0), jumpEqual(unix.SOCK_SEQPACKET, 0, 1), answer(allow), answer(refuse),
}

// noDevice allows making any node except a device; the mode is argument n.
func noDevice(n uint32) []unix.SockFilter {
	return []unix.SockFilter{
		loadArg(n), and(unix.S_IFMT), jumpEqual(unix.S_IFCHR, 1, 0), jumpEqual(unix.S_IFBLK, 0, 1), answer(refuse), answer(allow),
	}
}

// standardFilter refuses dangerous calls and allows the rest.
func standardFilter(s surroundings) filter {
	f := newFilter()
	f.addArgumentRules(s)
	f.addCalls(refuse, dangerous)
	f.addCalls(unknown, dangerousNew)
	return append(f, answer(allow))
}

// hardenedFilter allows the calls that interpreters and command-line programs need.
// It answers all others with ENOSYS, so that programs fall back to older calls.
func hardenedFilter(s surroundings) filter {
	f := newFilter()
	f.addArgumentRules(s)
	f.addCalls(allow, allowedCalls)
	f.addCalls(allow, allowedLegacy)
	f.addCalls(refuse, dangerous)
	return append(f, answer(unknown))
}

// install installs the filter permanently on this thread or, with
// SECCOMP_FILTER_FLAG_TSYNC, on all threads of the process. The thread must have
// no_new_privs set.
func (f filter) install(flags uintptr) error {
	program := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if thread != 0 {
		return fmt.Errorf("seccomp: thread %d cannot take the filter", thread)
	}
	return nil
}

// dangerous are calls that no sandboxed program needs: they reach rarely used code
// of the kernel, other processes, or the machine as a whole.
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

// dangerousNew are dangerous calls of newer kernels. They answer ENOSYS, because
// programs try them and fall back to older calls.
var dangerousNew = []int{
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
	unix.SYS_STATMOUNT, unix.SYS_LISTMOUNT, unix.SYS_QUOTACTL_FD,
	unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_MEMFD_SECRET,
	unix.SYS_LSM_SET_SELF_ATTR,
}
