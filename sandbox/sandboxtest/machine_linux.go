package sandboxtest

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// machineLacks is what keeps drivers on this machine from holding what they could:
// "is not root's"; empty is nothing. It asks the kernel and not the code under
// test.
var machineLacks = sync.OnceValue(func() string {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); int(abi) < 1 {
		return "has no Landlock"
	}
	if os.Getuid() != 0 {
		return "is used by somebody who is not root"
	}
	for controller, file := range map[string]string{"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"} {
		if !group("/sys/fs/cgroup/"+controller, file) && !group("/sys/fs/cgroup", controller+".max") {
			return "lets nobody make a cgroup for " + controller
		}
	}
	return ""
})

// group tells whether a cgroup can be made in a folder, and then has a file.
func group(folder, file string) bool {
	dir, err := os.MkdirTemp(folder, "toolroom-suite-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	_, err = os.Stat(filepath.Join(dir, file))
	return err == nil
}
