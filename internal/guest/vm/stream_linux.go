package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// meet opens the stream to the driver, sends [Ready], and reads the settings.
func meet() (*os.File, Settings, error) {
	port, ok, err := vsockPort()
	if err != nil {
		return nil, Settings{}, err
	}
	if ok {
		return meetByVsock(port)
	}
	stream, err := openPort()
	if err != nil {
		return nil, Settings{}, err
	}
	settings, err := greet(stream)
	return stream, settings, err
}

// vsockPort returns the port of [VsockOption] on the kernel's command line, if set.
func vsockPort() (port uint32, ok bool, err error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return 0, false, err
	}
	for option := range strings.FieldsSeq(string(line)) {
		if text, found := strings.CutPrefix(option, VsockOption); found {
			number, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return 0, false, fmt.Errorf("%s: %w", option, err)
			}
			return uint32(number), true, nil
		}
	}
	return 0, false, nil
}

func greet(stream *os.File) (Settings, error) {
	if _, err := stream.WriteString(Ready); err != nil {
		return Settings{}, fmt.Errorf("say ready: %w", err)
	}
	return readSettings(stream)
}

// openPort opens the first virtio serial port.
func openPort() (*os.File, error) {
	var fd int
	err := await("the machine has no virtio serial port", func() error {
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

// meetByVsock waits for the driver on a port of the VM's virtual socket. A snapshot
// breaks connections, so a restored VM accepts a new one.
func meetByVsock(port uint32) (*os.File, Settings, error) {
	fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, Settings{}, fmt.Errorf("the VM has no virtual sockets: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrVM{CID: unix.VMADDR_CID_ANY, Port: port}); err != nil {
		return nil, Settings{}, fmt.Errorf("listen on virtual port %d: %w", port, err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return nil, Settings{}, err
	}
	for {
		conn, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, Settings{}, fmt.Errorf("wait for the driver: %w", err)
		}
		stream := os.NewFile(uintptr(conn), "bridge")
		if settings, err := greet(stream); err == nil {
			return stream, settings, nil
		}
		stream.Close()
	}
}
