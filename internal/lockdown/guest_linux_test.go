//go:build amd64 || arm64

package lockdown

import (
	"encoding/json"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolroom/toolroom/sandbox/sandboxtest/escape"
)

// guest runs inside: it tries to get out, or uses up a resource.
func guest(args []string) int {
	switch args[0] {
	case "attack":
		var o escape.Outside
		if err := json.Unmarshal([]byte(args[1]), &o); err != nil {
			return 1
		}
		o.Server, _ = strconv.Atoi(os.Getenv("SERVER"))
		results := escape.Try(o)
		// A socket that needs no connection may be one of a pair, and the kernel makes one of a
		// raw socket, too.
		for name, kind := range map[string]int{"datagram": unix.SOCK_DGRAM, "raw": unix.SOCK_RAW} {
			results["turn a "+name+" pair to a socket of the host machine"] = turnPair(kind, o.Socket+datagrams)
		}
		if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
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

// datagrams is the end of the path of a datagram socket of the host machine.
const datagrams = ".datagrams"

// turnPair makes a pair of sockets, and sends from one to another socket than its peer.
func turnPair(kind int, path string) (result string) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
	if err == nil {
		err = unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: path})
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
	if err != nil {
		return err.Error()
	}
	return escape.Succeeded
}
