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
		if err := json.NewEncoder(os.Stdout).Encode(escape.Try(o)); err != nil {
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
