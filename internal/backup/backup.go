// Package backup writes the state of a home and its config to one file, and restores it.
// [Write] may run beside a server of the home; [Restore] may not.
//
// The file is a compressed tar archive, readable with other programs too:
//
//	manifest.json   the Manifest
//	home/           the files of the home
//	store/          the database and its sibling files
//	config/         the config, and the files that it names below its folder
package backup

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroom/toolroom"
)

// Format is the version of the archive's layout.
const Format = 1

// Manifest describes an archive.
type Manifest struct {
	Format int `json:"format"`
	// Version is the Toolroom that wrote the archive.
	Version string    `json:"version"`
	Created time.Time `json:"created"`
	// Home is the path of the home, and Store that of the database: relative to the home, or
	// absolute.
	Home  string `json:"home"`
	Store string `json:"store"`
	// Config is the path of the config; empty if there was none.
	Config string `json:"config,omitempty"`
	// Missing are the files that the config names and that the archive lacks, because they are
	// not below the config's folder, or are hidden there: Restore writes no hidden files, which
	// could be those of a shell or of another program.
	Missing []string `json:"left,omitempty"`
}

// Source describes what Write saves.
type Source struct {
	Home string
	// Store is the path of the database.
	Store string
	// Snapshot writes a consistent copy of the database to a path.
	Snapshot func(ctx context.Context, path string) error
	// Config is the path of the config, empty if there is none, and Files are the files that it
	// names.
	Config  string
	Files   []string
	Version string
}

const (
	manifestName = "manifest.json"
	homeFolder   = "home"
	storeFolder  = "store"
	configFolder = "config"
	storeFile    = "toolroom.db"
)

// siblingFiles are the files next to the database that are saved too. They are saved before it,
// so that they contain nothing that the copy of the database does not know.
var siblingFiles = []string{"receipts.head", "receipts.journal"}

// unsavedEntries are the entries of a home that are not saved, because they belong to running
// processes or are created again when needed.
var unsavedEntries = []string{"cache", "engines", "microvm", "lists", "replicas", "run", "runner", "history"}

// stashPrefix is the prefix of the folders that Restore creates in a home for the earlier
// entries.
const stashPrefix = "before-restore-"

// Write writes an archive to file atomically. It replaces an existing file only if force is
// set.
func Write(ctx context.Context, file string, from Source, force bool) (_ Manifest, err error) {
	if info, err := os.Stat(file); err == nil && (info.IsDir() || !force) {
		e := toolroom.Errorf(toolroom.CodeConflict, "%s already exists", file)
		if info.IsDir() {
			return Manifest{}, e.WithCLIHint("name a file in it")
		}
		return Manifest{}, e.WithCLIHint("choose another name, or replace it with --force")
	}
	if rel, err := filepath.Rel(from.Home, file); err == nil && filepath.IsLocal(rel) {
		return Manifest{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is in the home, which is to be saved", file).
			WithCLIHint("choose a file outside of %s", from.Home)
	}
	temp, err := os.MkdirTemp(filepath.Dir(file), ".toolroom-backup-")
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, toolroom.Errorf(toolroom.CodeInvalidArguments, "there is no folder %s", filepath.Dir(file)).WithCLIHint("mkdir -p %s", filepath.Dir(file))
	}
	if err != nil {
		return Manifest{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	m := Manifest{
		Format: Format, Version: from.Version, Created: time.Now().UTC().Truncate(time.Second),
		Home: from.Home, Store: filepath.ToSlash(from.Store), Config: from.Config,
	}
	if rel, err := filepath.Rel(from.Home, from.Store); err == nil && filepath.IsLocal(rel) {
		m.Store = filepath.ToSlash(rel)
	}
	named := map[string]string{} // names in the archive
	files := map[string]bool{}
	from.Files = slices.DeleteFunc(slices.Clone(from.Files), func(f string) bool { // several sources may have one
		seen := files[filepath.Clean(f)]
		files[filepath.Clean(f)] = true
		return seen
	})
	for _, f := range from.Files {
		rel, err := filepath.Rel(filepath.Dir(from.Config), f)
		if err != nil || !filepath.IsLocal(rel) || isHidden(path.Join(configFolder, filepath.ToSlash(rel))) {
			m.Missing = append(m.Missing, f)
			continue
		}
		named[f] = path.Join(configFolder, filepath.ToSlash(rel))
	}
	out, err := os.OpenFile(filepath.Join(temp, "archive"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Manifest{}, err
	}
	zip := gzip.NewWriter(out)
	w := &writer{ctx: ctx, tar: tar.NewWriter(zip)}
	err = w.write(from, m, named, filepath.Join(temp, storeFile))
	closed := errors.Join(w.tar.Close(), zip.Close(), out.Sync(), out.Close()) // repeats the failure of a write
	if err = cmp.Or(err, closed); err != nil {
		return Manifest{}, fmt.Errorf("write the backup: %w", err)
	}
	return m, os.Rename(out.Name(), file)
}

// isHidden reports whether a path in an archive has a name with a dot at its beginning.
func isHidden(name string) bool { return strings.Contains(name, "/.") }

// writer writes files to an archive.
type writer struct {
	ctx context.Context
	tar *tar.Writer
}

func (w *writer) write(from Source, m Manifest, named map[string]string, snapshot string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	head := &tar.Header{Typeflag: tar.TypeReg, Name: manifestName, Mode: 0o600, Size: int64(len(text)), ModTime: m.Created}
	if err := w.tar.WriteHeader(head); err != nil {
		return err
	}
	if _, err := w.tar.Write(text); err != nil {
		return err
	}
	beside := filepath.Dir(from.Store)
	for _, name := range siblingFiles {
		if err := w.writeTree(filepath.Join(beside, name), path.Join(storeFolder, name), nil); err != nil {
			return err
		}
	}
	if err := from.Snapshot(w.ctx, snapshot); err != nil {
		return err
	}
	if err := w.copyFile(snapshot, path.Join(storeFolder, storeFile)); err != nil {
		return err
	}
	skip := func(p string) bool {
		name := filepath.Base(p)
		switch filepath.Dir(p) {
		case from.Home:
			return slices.Contains(unsavedEntries, name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, stashPrefix) || isStore(p, from.Store)
		case beside:
			return isStore(p, from.Store)
		}
		return false
	}
	// With a separator at the end, a home that is a symbolic link is followed.
	if err := w.writeTree(from.Home+string(filepath.Separator), homeFolder, skip); err != nil {
		return err
	}
	if from.Config == "" {
		return nil
	}
	if err := w.copyFile(from.Config, path.Join(configFolder, filepath.Base(from.Config))); err != nil {
		return err
	}
	for _, f := range from.Files {
		if name := named[f]; name != "" {
			if err := w.copyFile(f, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// isStore reports whether p is the database or a file that belongs to it.
func isStore(p, store string) bool {
	name, ok := strings.CutPrefix(filepath.Base(p), filepath.Base(store))
	return filepath.Dir(p) == filepath.Dir(store) &&
		(ok && slices.Contains([]string{"", "-wal", "-shm", "-journal"}, name) || slices.Contains(siblingFiles, filepath.Base(p)))
}

// writeTree writes a file, or a folder and everything in it. It ignores a missing root, locks
// and files that are not regular.
func (w *writer) writeTree(root, name string, skip func(path string) bool) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case p != root && skip != nil && skip(p):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.IsDir() && (!d.Type().IsRegular() || strings.HasSuffix(p, ".lock")):
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		in := path.Join(name, filepath.ToSlash(rel))
		if !d.IsDir() {
			if err := w.copyFile(p, in); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil // a running process has removed it
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		return w.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: in + "/", Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()})
	})
}

// copyFile writes one file, with the size that it has when it is opened. Processes only replace
// files or append to them, so that part is consistent.
func (w *writer) copyFile(p, name string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if path.Dir(name) == path.Join(storeFolder, "receipts.journal") {
		// A journal is emptied when its entries are in the store.
		data, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		return w.writeFile(name, data, info)
	}
	if err := w.tar.WriteHeader(headerOf(name, size, info)); err != nil {
		return err
	}
	_, err = io.CopyN(w.tar, f, size)
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s changed while it was read: %w", p, err)
	}
	return err
}

func (w *writer) writeFile(name string, data []byte, info fs.FileInfo) error {
	if err := w.tar.WriteHeader(headerOf(name, int64(len(data)), info)); err != nil {
		return err
	}
	_, err := w.tar.Write(data)
	return err
}

func headerOf(name string, size int64, info fs.FileInfo) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(info.Mode().Perm()), Size: size, ModTime: info.ModTime()}
}
