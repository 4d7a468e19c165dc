package proc

import (
	"errors"
	"net"
	"os"
	"syscall"
)

func newProcessGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// signalGroup kills the process itself; groups cannot be signalled.
func signalGroup(pid int, _ syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

// SocketPair fails: what needs it does not exist on Windows.
func SocketPair(int) (*net.UnixConn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func peakMemory(*os.ProcessState) int64 { return 0 }
