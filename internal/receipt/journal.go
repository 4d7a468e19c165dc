package receipt

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Journal holds the receipts of one process that are not yet in the store, in
// files. Its entries survive the end of the process; [Recover] then moves them
// into the store. Those that were synced survive a power loss as well.
//
// Two files alternate: one is written while the entries of the other are
// committed, after which the other is emptied. So the files stay small, and
// details that are redacted in the store do not remain beside it.
//
// A Journal is not safe for concurrent use.
type Journal struct {
	dir, name   string
	lock        *flock.Flock // held while the journal is in use; nil before the first entry
	files       [2]*os.File
	last        [2]int64 // the last entry in each file, zero if it is empty
	synced      int64    // the last entry that is on the disk, as are all before it
	failed      bool     // a sync has failed, or a file is gone
	created     int      // number of files created
	namesSynced int      // number of created files whose names are on the disk
	current     int      // index of the file that entries are written to
	entry       int64    // the last entry
	partial     bool     // the last line may be a part of one
	line        []byte
	syncFile    func(*os.File) error // (*os.File).Sync, except in tests
}

// NewJournal returns a journal in dir, which is created with the first entry.
// owner identifies the process, as for the function alive of [Recover].
func NewJournal(dir, owner string) *Journal {
	return &Journal{dir: dir, name: url.QueryEscape(owner) + "." + strings.ToLower(rand.Text()[:12]), syncFile: (*os.File).Sync}
}

// appendLine appends a line of the journal: the number of the entry, and the encoded receipt
// as a [Record] that is not in the chain yet.
func (r *Draft) appendLine(line []byte, entry int64) []byte {
	line = append(strconv.AppendInt(line, entry, 10), ` {"body":`...)
	line = append(append(line, r.body...), `,"detail":`...)
	return append(append(line, r.detail...), "}\n"...)
}

// add writes an entry, whose receipt is encoded, and sets its position in r.
func (j *Journal) add(r *Draft) error {
	f := j.files[j.current]
	if f == nil {
		if err := j.acquire(); err != nil {
			return err
		}
		var err error
		if f, err = os.OpenFile(j.path(j.current), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return err
		}
		j.files[j.current] = f
		j.created++
	}
	j.entry++
	line := j.line[:0]
	if j.partial {
		line = append(line, '\n')
	}
	line = r.appendLine(line, j.entry)
	if cap(line) <= 64<<10 {
		j.line = line
	}
	r.Journal, r.Entry, j.last[j.current] = j.name, j.entry, j.entry
	_, err := f.Write(line)
	j.partial = err != nil
	return err
}

// acquire creates the folder and locks the journal. The lock tells [Recover] that the journal is
// in use, also in another PID namespace, where this process seems dead.
func (j *Journal) acquire() error {
	if j.lock != nil {
		return nil
	}
	if err := os.MkdirAll(j.dir, 0o700); err != nil {
		return err
	}
	lock := lockOf(j.dir, j.name)
	if free, err := lock.TryLock(); err != nil || !free {
		return cmp.Or(err, fmt.Errorf("another process has locked %s", lock.Path()))
	}
	j.lock = lock
	return nil
}

// lockOf returns the lock of a journal.
func lockOf(dir, journal string) *flock.Flock {
	return flock.New(filepath.Join(dir, journal+".lock"), flock.SetPermissions(0o600))
}

// removeLock releases a lock and removes its file.
func removeLock(lock *flock.Flock) error {
	if err := lock.Close(); err != nil { // first: Windows does not remove open files
		return err
	}
	if err := os.Remove(lock.Path()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sync returns a function that puts all entries so far on the disk, and a function that records
// that success in j. Only the first may be called while j is used. If it fails, the journal is
// not synced again: the system may have dropped what it could not write, and the next sync
// would succeed without it.
func (j *Journal) sync() (do func() error, done func()) {
	last, created := j.entry, j.created
	var files []*os.File
	for i, f := range j.files {
		if j.last[i] > j.synced {
			files = append(files, f)
		}
	}
	do = func() error {
		for _, f := range files {
			if err := j.syncFile(f); err != nil {
				return err
			}
			if err := checkInPlace(f); err != nil {
				return err
			}
		}
		if j.namesSynced == created {
			return nil
		}
		return errors.Join(syncFolder(j.dir), syncFolder(filepath.Dir(j.dir)))
	}
	return do, func() { j.synced, j.namesSynced = max(j.synced, last), created }
}

// checkInPlace returns an error if an open file was removed or replaced; entries written after
// that would be lost with this process.
func checkInPlace(f *os.File) error {
	here, err := f.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(f.Name()); err != nil || !os.SameFile(here, there) {
		return fmt.Errorf("another process has removed %s", f.Name())
	}
	return nil
}

// syncFolder writes the names in a folder to the disk. Windows has no such call and needs
// none: NTFS journals its folders.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (j *Journal) path(i int) string { return filepath.Join(j.dir, j.name+"."+strconv.Itoa(i)) }

// switchFile switches to the other file if that one is empty.
func (j *Journal) switchFile() {
	if j.last[1-j.current] == 0 && j.last[j.current] != 0 {
		j.current, j.partial = 1-j.current, false
	}
}

// dropCommitted empties the files whose entries, up to the given one, are in the store. If a
// file cannot be emptied, the next call tries again.
func (j *Journal) dropCommitted(entry int64) {
	j.synced = max(j.synced, entry)
	for i, f := range j.files {
		if j.last[i] != 0 && j.last[i] <= entry && f.Truncate(0) == nil {
			j.last[i] = 0
		}
	}
}

// close removes the files if all entries are committed.
func (j *Journal) close() error {
	empty := j.last == [2]int64{}
	var errs []error
	for i, f := range j.files {
		if f == nil {
			continue
		}
		errs = append(errs, f.Close())
		if empty {
			if err := os.Remove(j.path(i)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
	}
	switch {
	case j.lock == nil:
	case empty:
		errs = append(errs, removeLock(j.lock))
	default:
		errs = append(errs, j.lock.Close())
	}
	return errors.Join(errs...)
}

// Recover moves the receipts in journals of ended processes in dir into the store
// and removes these journals. A journal that is locked is in use, even if alive does not
// see its process. If several processes do so at once, they take turns: two that
// move one journal could append its receipts twice. It returns how many receipts it found,
// and how many damaged lines.
func Recover(ctx context.Context, dir string, alive func(owner string) bool, store Store) (found, damaged int, err error) {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	lock := flock.New(filepath.Clean(dir)+".lock", flock.SetPermissions(0o600))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return 0, 0, fmt.Errorf("lock the journals of receipts: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	files := map[string][]string{} // by journal
	for _, e := range entries {
		name := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".0"), ".1")
		if owner, ok := ownerOf(name); ok && name != e.Name() && !alive(owner) {
			files[name] = append(files[name], filepath.Join(dir, e.Name()))
		}
	}
	var errs []error
	for journal, paths := range files {
		n, bad, err := recoverOne(ctx, lockOf(dir, journal), journal, paths, store)
		found, damaged = found+n, damaged+bad
		errs = append(errs, err)
	}
	return found, damaged, errors.Join(errs...)
}

// lockRetry is how often a lock that another process holds is tried.
const lockRetry = 10 * time.Millisecond

// ownerOf returns the process that a journal belongs to.
func ownerOf(journal string) (owner string, ok bool) {
	i := strings.LastIndexByte(journal, '.')
	if i < 0 {
		return "", false
	}
	owner, err := url.QueryUnescape(journal[:i])
	return owner, err == nil
}

// IsGone reports whether a journal in dir does not exist and never will again.
func IsGone(dir, journal string, alive func(owner string) bool) bool {
	if owner, ok := ownerOf(journal); ok && alive(owner) {
		return false
	}
	for _, end := range []string{".0", ".1"} {
		if _, err := os.Lstat(filepath.Join(dir, journal+end)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

func recoverOne(ctx context.Context, lock *flock.Flock, journal string, paths []string, store Store) (found, damaged int, err error) {
	defer func() { err = errors.Join(err, lock.Close()) }()
	if free, err := lock.TryLock(); err != nil || !free {
		return 0, 0, err
	}
	var left []*Draft
	for _, path := range paths {
		list, bad, err := readJournal(journal, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process was faster
		}
		if err != nil {
			return 0, 0, fmt.Errorf("read a journal of receipts: %w", err)
		}
		left, damaged = append(left, list...), damaged+bad
	}
	slices.SortFunc(left, func(a, b *Draft) int { return cmp.Compare(a.Entry, b.Entry) })
	for group := range slices.Chunk(left, 1024) {
		if err := store.AppendReceipts(ctx, group); err != nil {
			return 0, 0, err
		}
	}
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, 0, err
		}
	}
	return len(left), damaged, removeLock(lock)
}

func readJournal(journal, path string) (list []*Draft, damaged int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if r, err := readEntry(line); err == nil {
				r.Journal = journal
				list = append(list, r)
			} else {
				damaged++
			}
		}
		if err == io.EOF {
			return list, damaged, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
}

// readEntry reads a line of a journal.
func readEntry(line []byte) (*Draft, error) {
	number, text, _ := bytes.Cut(line, []byte{' '})
	entry, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return nil, err
	}
	var k Record
	if err := json.Unmarshal(text, &k); err != nil {
		return nil, err
	}
	r, err := k.Receipt()
	if err != nil {
		return nil, err
	}
	r.Seq = 0 // it has none yet
	return &Draft{Receipt: *r, Entry: entry}, nil
}
