package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ReleasePages unmaps the pages of this program's file, its code and its tables. A page that
// is needed again is mapped again from the page cache. A server calls it after its
// start, which touches nearly all of these pages. An idle server needs a quarter of them.
func ReleasePages() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()
	for _, m := range cleanMappings(smaps, program) {
		// An error leaves the pages mapped, which costs nothing but memory.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// mapping is a range of addresses. It ends before to.
type mapping struct{ from, to uintptr }

// cleanMappings returns the read-only mappings of a file of which all pages are those of the
// file. It leaves out the relocated tables of a position-independent program, which are
// read-only too: their pages would be lost. The format of smaps is that of proc_pid_smaps(5):
// a mapping has a head, "00400000-01e49000 r-xp 00000000 fe:00 1028 /path", and lines such
// as "Anonymous: 0 kB".
func cleanMappings(smaps io.Reader, file string) (clean []mapping) {
	var m mapping
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		line := lines.Text()
		name, _, _ := strings.Cut(line, " ")
		switch {
		case !strings.HasSuffix(name, ":"):
			var access string
			m = mapping{}
			if strings.HasSuffix(line, " "+file) {
				_, _ = fmt.Sscanf(line, "%x-%x %s", &m.from, &m.to, &access)
			}
			if !strings.HasPrefix(access, "r-") {
				m = mapping{}
			}
		case name == "Anonymous:" && m.from < m.to && strings.HasSuffix(line, " 0 kB"):
			clean = append(clean, m)
		}
	}
	return clean
}
