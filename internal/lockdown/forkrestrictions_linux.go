//go:build amd64 || arm64

package lockdown

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// ForkRestrictions are the restrictions that a sandboxed program puts on each
// process that it forks to run untrusted code, because these processes share one
// user. They are encoded for the kernel, so that the program need not know how.
type ForkRestrictions struct {
	// Filter is a seccomp program in the kernel's format. It allows computing, files
	// and threads, but no new programs or processes, no signals, no sockets except
	// socket pairs, and no named shared memory.
	Filter []byte
	// Handled and Scoped are arguments of landlock_create_ruleset. Read and Write are
	// the rights to readable folders and to the process's own folder.
	Handled, Scoped uint64
	Read, Write     uint64
}

// deniedAfterFork are the calls that a forked process does not need.
var deniedAfterFork = []int{
	unix.SYS_EXECVE, unix.SYS_EXECVEAT,
	unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
	unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	unix.SYS_MEMFD_CREATE, // its memory counts towards no limit of one process
}

// ForkRestrictions returns the restrictions that this machine's kernel supports.
func (h *HostMachine) ForkRestrictions() ForkRestrictions {
	f := newFilter()
	f.addCall(unix.SYS_CLONE, loadArg(0), jumpAnyBit(unix.CLONE_THREAD, 1, 0), answer(refuse), answer(allow))
	f.addCall(unix.SYS_CLONE3, answer(unknown))
	f.addCalls(refuse, deniedAfterFork)
	f.addCalls(refuse, forkedLegacy)
	f = append(f, answer(allow))
	var code []byte
	for _, i := range f {
		code = binary.LittleEndian.AppendUint16(code, i.Code)
		code = append(code, i.Jt, i.Jf)
		code = binary.LittleEndian.AppendUint32(code, i.K)
	}
	abi := h.machine().landlock
	handled := landlockFS(abi)
	out := ForkRestrictions{Filter: code, Handled: handled, Read: landlockRead & handled, Write: handled &^ landlockDevice}
	if abi >= 6 {
		out.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return out
}
