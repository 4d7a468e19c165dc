//go:build integration

package runtimes

import "maps"

// What the drivers do not refuse, and why it leads nowhere.
var (
	inAnImage = map[string]string{
		"see /var":       "the image's own",
		"open /dev/ptmx": "the terminals are of its own file system",
	}
	inDocker = map[string]string{
		"see a cgroup tree": "read-only; Docker shows it",
	}
	inGVisor = map[string]string{
		"open /dev/ptmx":           "the terminals are gVisor's",
		"open /dev/fuse":           "gVisor's own, which reaches its kernel alone",
		"open /dev/net/tun":        "gVisor's own, which reaches its kernel alone",
		"make an overlay whiteout": "in gVisor's memory",
		"look into /proc/1/fd":     "the guest's, whose files gVisor does not hide from its user",
	}
)

func possible(lists ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, list := range lists {
		maps.Copy(all, list)
	}
	return all
}

// below is what a runtime below an engine does not refuse.
func below(runtime string) map[string]string {
	if runtime == "runsc" {
		return inGVisor
	}
	return nil
}
