package enginetest

import (
	"os"
	"strconv"
	"strings"
	"time"
)

// process is the state of a process from proc(5).
type process struct {
	pid, parent int
	cpu         time.Duration // of all its threads, including ended ones
}

// clockTick is the unit of times in proc(5) on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

func processes() (list []process) {
	entries, _ := os.ReadDir("/proc") // none if there is no such folder
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat") // empty if the process has ended
		// The second field is a name in brackets, which may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) < 13 {
			continue
		}
		number := func(field int) int {
			n, _ := strconv.Atoi(fields[field])
			return n
		}
		list = append(list, process{pid, number(1), time.Duration(number(11)+number(12)) * clockTick})
	}
	return list
}

// descendants returns the descendants of a process.
func descendants(pid int) (found []process) {
	children := map[int][]process{}
	for _, p := range processes() {
		children[p.parent] = append(children[p.parent], p)
	}
	for look := children[pid]; len(look) > 0; look = look[1:] {
		found = append(found, look[0])
		look = append(look, children[look[0].pid]...)
	}
	return found
}

// cpuTime returns the processor time of this process and its descendants, 0 if it cannot
// be read.
func cpuTime() (total time.Duration) {
	for _, p := range processes() {
		if p.pid == os.Getpid() {
			total += p.cpu
		}
	}
	for _, p := range descendants(os.Getpid()) {
		total += p.cpu
	}
	return total
}
