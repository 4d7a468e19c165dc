package proc

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Memory returns the resident memory of the process and the other processes of its group,
// in bytes. Shared pages are counted for each process.
func (p *Process) Memory() int64 {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pages int64
	for _, path := range stats {
		if stat, err := os.ReadFile(path); err == nil {
			pages += residentPages(stat, p.PID())
		}
	}
	return pages * int64(os.Getpagesize())
}

// residentPages returns field 24 of /proc/PID/stat if field 5 says that the process is in
// the group (proc(5)).
func residentPages(stat []byte, group int) int64 {
	// The command, field 2, is in parentheses and may contain any characters.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const groupField, residentField = 5 - 3, 24 - 3
	if len(fields) <= residentField || fields[groupField] != strconv.Itoa(group) {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[residentField], 10, 64)
	return pages
}
