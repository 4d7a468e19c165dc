package sandboxtest

import (
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// machineLacks says which feature this machine lacks that drivers need to enforce all
// limits, for example "has no Landlock", or is empty. It asks the kernel, not the code
// under test.
var machineLacks = sync.OnceValue(func() string {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	if abi, _, _ := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version); int(abi) < 1 {
		return "has no Landlock"
	}
	if os.Getuid() != 0 {
		return "runs the tests as a user other than root"
	}
	for controller, file := range map[string]string{"memory": "memory.limit_in_bytes", "pids": "pids.max", "cpu": "cpu.cfs_quota_us"} {
		if !group("/sys/fs/cgroup/"+controller, file) && !group("/sys/fs/cgroup", controller+".max") {
			return "allows no cgroup for " + controller
		}
	}
	return ""
})

// group reports whether a cgroup with a file can be made in a folder.
func group(folder, file string) bool {
	dir, err := os.MkdirTemp(folder, "toolroom-suite-")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	_, err = os.Stat(filepath.Join(dir, file))
	return err == nil
}
