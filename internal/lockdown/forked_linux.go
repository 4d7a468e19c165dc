//go:build amd64 || arm64

package lockdown

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// Forked is what a program inside puts on each process that it forks to serve
// a stranger, beside others of the same user: the numbers for the kernel, so
// that the program need not know them.
type Forked struct {
	// Filter is a seccomp program, as the kernel wants it: computing, files and
	// threads stay; new programs and processes, signals, sockets but pairs, and
	// memory shared by name do not.
	Filter []byte
	// Handled and Scoped are for landlock_create_ruleset; Read and Write are the
	// rights of folders that may be read, and of the one that is its own.
	Handled, Scoped uint64
	Read, Write     uint64
}

// alone are the calls that a forked process has no use for.
var alone = []int{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	unix.SYS_MEMFD_CREATE, // memory that no limit of one process counts
}

// Forked works out what this machine's kernel is to be told.
func (h *Host) Forked() Forked {
	f := newFilter()
	f.on(unix.SYS_CLONE, loadArg(0), jumpAnyBit(unix.CLONE_THREAD, 1, 0), answer(refuse), answer(allow))
	f.on(unix.SYS_CLONE3, answer(unknown))
	f.all(refuse, alone)
	f.all(refuse, forkedLegacy)
	f = append(f, answer(allow))
	var code []byte
	for _, i := range f {
		code = binary.LittleEndian.AppendUint16(code, i.Code)
		code = append(code, i.Jt, i.Jf)
		code = binary.LittleEndian.AppendUint32(code, i.K)
	}
	abi := h.machine().landlock
	handled := landlockFS(abi)
	out := Forked{Filter: code, Handled: handled, Read: landlockRead & handled, Write: handled &^ landlockDevice}
	if abi >= 6 {
		out.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return out
}
