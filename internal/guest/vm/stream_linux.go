package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// openStream opens the way to the host.
func openStream() (*os.File, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return nil, err
	}
	for option := range strings.FieldsSeq(string(line)) {
		if text, ok := strings.CutPrefix(option, VsockOption); ok {
			port, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", option, err)
			}
			return acceptVsock(uint32(port))
		}
	}
	var fd int
	err = await("the machine has no virtio serial port", func() error {
		ports, err := filepath.Glob("/dev/vport*p1")
		if err != nil || len(ports) == 0 {
			return os.ErrNotExist
		}
		fd, err = unix.Open(ports[0], unix.O_RDWR|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "bridge"), nil
}

// acceptVsock waits for the host's one connection.
func acceptVsock(port uint32) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the machine has no virtual sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: port}); err != nil {
		return nil, fmt.Errorf("listen on virtual port %d: %w", port, err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return nil, err
	}
	for {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("wait for the host: %w", err)
		}
		return os.NewFile(uintptr(conn), "bridge"), nil
	}
}
