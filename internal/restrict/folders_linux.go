package restrict

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// folderCache remembers what folders hold from one plan to the next. A rule that begins with
// ** is about every folder that a sandbox shows, most of which are of installed programs and
// never change.
//
// It answers with what is there now: it looks at the folder each time, and forgets one that
// another has taken the place of, also by a mount, or that has changed. The kernel sets the
// change time of a folder whenever an entry is made, removed or renamed, and no program can
// set it to a time of its choice. It is as exact as the kernel's clock, so that a folder that
// has changed within the last seconds is not remembered.
type folderCache struct {
	mu    sync.Mutex
	known map[string]*folder
}

var remembered = &folderCache{known: map[string]*folder{}}

// folder is what is in a folder in one state of it.
type folder struct {
	state   folderState
	entries []entry
	exact   bool // a name that is not among the entries is not found: its letters' case counts
}

// lacks reports whether a part of a pattern names nothing in the folder.
func (f *folder) lacks(segment string) bool {
	return f.exact && !strings.Contains(segment, "*") && !slices.ContainsFunc(f.entries, func(e entry) bool { return e.name == segment })
}

type entry struct {
	name string
	kind fs.FileMode // its type alone
}

type folderState struct {
	dev, ino          uint64
	changed, modified unix.Timespec
}

func stateOf(s *unix.Stat_t) folderState { return folderState{s.Dev, s.Ino, s.Ctim, s.Mtim} }

const (
	// settled is how long ago a folder must have changed to be remembered. The kernel's clock
	// for files has steps of at most 10 milliseconds.
	settled = 2 * time.Second
	// maxFolders is how many are remembered. 20,000 folders with 150,000 files, a Debian with
	// compilers, take 9 MB.
	maxFolders = 100_000
)

// timesHold are the file systems whose change times are the kernel's own. Those of networks
// and of FUSE say what another machine or a program wants.
var timesHold = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

// read returns what is in a folder now, in no order.
func (c *folderCache) read(dir string) (*folder, error) {
	c.mu.Lock()
	f := c.known[dir]
	c.mu.Unlock()
	var now unix.Stat_t
	if f != nil && unix.Lstat(dir, &now) == nil && stateOf(&now) == f.state {
		return f, nil
	}
	f, keep, err := readFolder(dir)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= maxFolders {
		clear(c.known)
	}
	if delete(c.known, dir); keep {
		c.known[dir] = f
	}
	return f, nil
}

// readFolder reads a folder and reports whether it may be remembered.
func readFolder(dir string) (f *folder, keep bool, err error) {
	open, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer open.Close()
	// The state is that before the entries are read, so that a change in between is seen
	// the next time.
	now := time.Now()
	var stat unix.Stat_t
	var system unix.Statfs_t
	fd := int(open.Fd())
	if err := errors.Join(unix.Fstat(fd, &stat), unix.Fstatfs(fd, &system)); err != nil {
		return nil, false, &fs.PathError{Op: "stat", Path: dir, Err: err}
	}
	all, err := open.ReadDir(-1)
	if err != nil {
		return nil, false, err
	}
	f = &folder{state: stateOf(&stat), entries: make([]entry, len(all)), exact: caseCounts(fd, int64(system.Type))}
	var names strings.Builder // one text takes less memory than each name
	for _, e := range all {
		names.WriteString(e.Name())
	}
	rest := names.String()
	for i, e := range all {
		n := len(e.Name())
		f.entries[i] = entry{rest[:n], e.Type()}
		rest = rest[n:]
	}
	age := now.Sub(time.Unix(stat.Ctim.Unix()))
	return f, age > settled && slices.Contains(timesHold, int64(system.Type)), nil
}

// caseCounts reports whether a folder is known to tell upper from lower case.
func caseCounts(fd int, system int64) bool {
	if !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, system) {
		return false
	}
	const casefold = 0x40000000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefold == 0
}
