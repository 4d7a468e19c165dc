package proc

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReleasedPagesAreMappedAgain releases the pages of the test's program, and runs on.
func TestReleasedPagesAreMappedAgain(t *testing.T) {
	before := residentFile(t)
	ReleasePages()
	if after := residentFile(t); after >= before*3/4 {
		t.Errorf("%d kB of files are mapped, %d before", after, before)
	}
}

// TestOnlyPagesThatTheFileHasAreReleased reads the mappings of a position-independent program:
// code, relocated tables and data. It would crash without its relocated tables.
func TestOnlyPagesThatTheFileHasAreReleased(t *testing.T) {
	const smaps = `561869980000-561869c00000 r-xp 00000000 fe:00 1028   /opt/my tools/toolroom
Rss:                1280 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me sd
561869c00000-561869e00000 r--p 00280000 fe:00 1028   /opt/my tools/toolroom
Anonymous:          1200 kB
561869e00000-561869f00000 rw-p 00480000 fe:00 1028   /opt/my tools/toolroom
Anonymous:             0 kB
7f9fea8d0000-7f9feab90000 r--p 00000000 fe:00 1029   /usr/lib/my tools/other
Anonymous:             0 kB
7f9feab90000-7f9feac90000 rw-p 00000000 00:00 0
Anonymous:             0 kB
561869f00000-561869f80000 r--p 00500000 fe:00 1028   /opt/my tools/toolroom
Anonymous:             0 kB
`
	want := []mapping{{0x561869980000, 0x561869c00000}, {0x561869f00000, 0x561869f80000}}
	if got := cleanMappings(strings.NewReader(smaps), "/opt/my tools/toolroom"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// residentFile returns how much of files is mapped, in kB.
func residentFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kB, err := strconv.Atoi(string(regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kB
}
