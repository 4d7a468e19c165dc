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

// folderCache caches the entries of folders from one plan to the next. A rule that begins with
// ** applies to every folder that a sandbox shows. Most of these belong to installed programs
// and never change.
//
// The cache never returns old entries: it checks the folder each time, and reads it again if it
// has changed or been replaced, also by a mount. The kernel sets the change time of a folder
// whenever an entry is made, removed or renamed, and no program can set it to a time of its
// choice. The change time is as precise as the kernel's clock, so a folder that has changed
// within the last seconds is not cached.
type folderCache struct {
	mu    sync.Mutex
	known map[string]*folder
}

var folderReads = &folderCache{known: map[string]*folder{}}

// folder is the entries of a folder in one state.
type folder struct {
	state         folderState
	entries       []entry
	caseSensitive bool // a name that is not among the entries cannot be opened in other case
}

// lacks reports whether a segment of a pattern certainly matches no entry of the folder.
func (f *folder) lacks(segment string) bool {
	return f.caseSensitive && !strings.Contains(segment, "*") && !slices.ContainsFunc(f.entries, func(e entry) bool { return e.name == segment })
}

type entry struct {
	name string
	kind fs.FileMode // only the type bits
}

type folderState struct {
	dev, ino          uint64
	changed, modified unix.Timespec
}

func stateOf(s *unix.Stat_t) folderState { return folderState{s.Dev, s.Ino, s.Ctim, s.Mtim} }

const (
	// minFolderAge is how long ago a folder must have changed to be cached. The kernel's clock
	// for files has steps of at most 10 milliseconds.
	minFolderAge = 2 * time.Second
	// maxFolders is how many folders are cached. 20,000 folders with 150,000 files, a Debian
	// with compilers, take 9 MB.
	maxFolders = 100_000
)

// trustedFileSystems are the file systems whose change times the kernel sets. On network file
// systems and FUSE, another machine or a program sets them.
var trustedFileSystems = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC,
}

// read returns the current entries of a folder, in no particular order.
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

// readFolder reads a folder and reports whether it may be cached.
func readFolder(dir string) (f *folder, keep bool, err error) {
	open, err := os.Open(dir)
	if err != nil {
		return nil, false, err
	}
	defer open.Close()
	// Take the state before the entries are read, so that a change in between is noticed the
	// next time.
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
	f = &folder{state: stateOf(&stat), entries: make([]entry, len(all)), caseSensitive: isCaseSensitive(fd, int64(system.Type))}
	var names strings.Builder // one string takes less memory than one per name
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
	return f, age > minFolderAge && slices.Contains(trustedFileSystems, int64(system.Type)), nil
}

// isCaseSensitive reports whether names in a folder are certainly case-sensitive.
func isCaseSensitive(fd int, system int64) bool {
	if !slices.Contains([]int64{unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}, system) {
		return false
	}
	const casefold = 0x40000000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&casefold == 0
}
