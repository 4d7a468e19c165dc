//go:build integration

package runtimes

import "maps"

// The attempts that the drivers do not refuse, and why they are harmless.
var (
	inAnImage = map[string]string{
		"see /var": "the image's own folder, which has nothing of this machine",
	}
	// Docker mounts the tree everywhere, and below it gVisor masks nothing.
	inDockerWithGVisor = map[string]string{
		"see a cgroup tree": "gVisor's own, read-only",
	}
	// gVisor masks no paths, and makes its devices itself.
	inGVisor = map[string]string{
		"open /dev/ptmx":       "terminals of gVisor's own kernel; the machine's are not in reach",
		"open /dev/fuse":       "gVisor's own kernel serves it; to mount what it offers needs a capability, and is refused",
		"open /dev/net/tun":    "gVisor's own network stack, which leads nowhere; to make an interface needs a capability",
		"look into /proc/1/fd": "the guest's, who has nothing but the program's own bridge: what comes from there is judged as the program's",
	}
)

func possible(lists ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, list := range lists {
		maps.Copy(all, list)
	}
	return all
}

// below lists the attempts that a runtime below an engine does not refuse.
func below(runtime string) map[string]string {
	if runtime == "runsc" {
		return inGVisor
	}
	return nil
}
