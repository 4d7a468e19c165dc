package backup

import (
	"archive/tar"
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
	"github.com/toolroom/toolroom/internal/atomicfile"
)

// replacedSuffix is added to the name of a config that Restore replaces and keeps.
const replacedSuffix = ".before-restore"

// Target describes where Restore puts an archive.
type Target struct {
	Home string
	// Config is the path of the config. It may be empty if the archive has none or its config
	// was in the home. The caller names Config and Store, because an archive must not choose
	// where Restore writes.
	Config string
	// Store is the path of the database, if it was outside of the home.
	Store string
	// Force replaces existing files. The entries of the home are moved to a folder in it, and a
	// database outside the home to a folder beside it.
	Force bool
	// Check returns an error if the database at path cannot be used.
	Check func(ctx context.Context, path string) error
}

// Restored describes what Restore did.
type Restored struct {
	Manifest
	// ConfigFile is the path of the restored config; empty if the archive has none.
	ConfigFile string `json:"config_file,omitempty"`
	// OldHome is the folder to which the earlier entries of the home were moved; empty if there
	// were none.
	OldHome string `json:"before,omitempty"`
	// OldStore is the folder to which the earlier database and its files were moved, if they
	// were outside the home; empty if there were none.
	OldStore string `json:"store_before,omitempty"`
}

// Restore restores an archive. It changes nothing unless the whole archive can be read, its
// database can be used and it would overwrite nothing, or Force is set.
func Restore(ctx context.Context, file string, to Target) (_ Restored, err error) {
	present, err := entries(to.Home)
	if err != nil {
		return Restored{}, err
	}
	if len(present) > 0 && !to.Force {
		return Restored{}, toolroom.Errorf(toolroom.CodeConflict, "the home %s is not empty", to.Home).
			WithCLIHint("restore to another --home, or add --force, which moves what is there to a folder in it")
	}
	made := len(present) == 0
	if err := os.MkdirAll(to.Home, 0o700); err != nil {
		return Restored{}, err
	}
	staged, err := os.MkdirTemp(to.Home, ".restore-")
	if err != nil {
		return Restored{}, err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(staged))
		if err != nil && made {
			_ = os.Remove(to.Home) // only if it is empty
		}
	}()
	m, err := unpack(ctx, file, staged)
	if err != nil {
		return Restored{}, fmt.Errorf("%s: %w", file, err)
	}
	database := filepath.Join(staged, storeFolder, storeFile)
	if err := to.Check(ctx, database); err != nil {
		return Restored{}, fmt.Errorf("%s: %w", file, err)
	}
	r := Restored{Manifest: m, ConfigFile: to.Config}
	if m.Config == "" {
		r.ConfigFile = ""
	} else if r.ConfigFile == "" {
		if !isBelow(to.Home, m.Config) {
			return Restored{}, toolroom.Errorf(toolroom.CodeConflict, "the config of the backup was %s, outside of the home", m.Config).
				WithCLIHint("say where it goes, with the files that it names: --config %s", m.Config)
		}
		r.ConfigFile = m.Config
	}
	store := filepath.FromSlash(m.Store)
	if !filepath.IsAbs(store) {
		if !filepath.IsLocal(store) || filepath.Clean(store) == "." {
			return Restored{}, badEntry(file, "its database belongs outside of the home")
		}
		store = filepath.Join(to.Home, store)
	} else if to.Store != store {
		return Restored{}, toolroom.Errorf(toolroom.CodeConflict, "the database of the backup was %s, outside of the home", store).
			WithCLIHint("let it go there again: --store %s", store)
	} else if _, err := os.Lstat(store); err == nil && !to.Force {
		return Restored{}, conflictError(store)
	}
	configs, err := r.configTargets(staged, to.Force)
	if err != nil {
		return Restored{}, err
	}
	stashed := stashPrefix + time.Now().UTC().Format("20060102-150405")
	if len(present) > 0 {
		r.OldHome = filepath.Join(to.Home, stashed)
		if err := stash(to.Home, present, r.OldHome); err != nil {
			return Restored{}, err
		}
	}
	// What is of a database in the home has been moved with the home.
	if old := databaseFiles(store); len(old) > 0 {
		r.OldStore = filepath.Join(filepath.Dir(store), stashed)
		if err := stash(filepath.Dir(store), old, r.OldStore); err != nil {
			return Restored{}, err
		}
	}
	if err := install(staged, to.Home, store, m, configs); err != nil {
		return Restored{}, err
	}
	return r, errors.Join(atomicfile.SyncDir(to.Home), atomicfile.SyncDir(filepath.Dir(store)))
}

// databaseFiles returns the names of the existing files of a database and of its sibling files.
func databaseFiles(store string) (names []string) {
	base := filepath.Base(store)
	for _, name := range append([]string{base, base + "-wal", base + "-shm", base + "-journal"}, siblingFiles...) {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(store), name)); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// isBelow reports whether an absolute path is below a folder.
func isBelow(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsAbs(path) && filepath.IsLocal(rel)
}

// entries returns the names in a home, without the folders of earlier restores.
func entries(home string) ([]string, error) {
	all, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), ".restore-") && !strings.HasPrefix(e.Name(), stashPrefix) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

func stash(home string, names []string, into string) error {
	if err := os.Mkdir(into, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(home, name), filepath.Join(into, name)); err != nil {
			return err
		}
	}
	return nil
}

// maxManifest is the largest manifest that is read, in bytes. It names a few paths.
const maxManifest = 1 << 20

// unpack unpacks an archive to a folder. The checksum at its end shows that it is complete.
func unpack(ctx context.Context, file, folder string) (m Manifest, err error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return m, toolroom.Errorf(toolroom.CodeNotFound, "there is no such file").WithCLIHint("name the file that toolroom backup wrote")
	}
	if err != nil {
		return m, err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return m, badEntry(file, err.Error())
	}
	in := tar.NewReader(zip)
	first, err := in.Next()
	if err != nil || first.Name != manifestName {
		return m, badEntry(file, "it does not begin with "+manifestName)
	}
	if first.Size > maxManifest {
		return m, badEntry(file, fmt.Sprintf("%s has %d bytes", manifestName, first.Size))
	}
	if err := json.NewDecoder(in).Decode(&m); err != nil {
		return m, badEntry(file, err.Error())
	}
	if m.Format < 1 || m.Format > Format {
		return m, toolroom.Errorf(toolroom.CodeUnsupported, "the backup of Toolroom %s has format %d, and this one knows formats up to %d", m.Version, m.Format, Format).
			WithCLIHint("restore it with Toolroom %s or later", m.Version)
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return m, err
	}
	defer root.Close()
	for {
		head, err := in.Next()
		if err == nil {
			err = ctx.Err()
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			err = extract(root, head, in, path.Join(configFolder, filepath.Base(m.Config)))
		}
		if err != nil {
			return m, damagedError(err)
		}
	}
	_, err = io.Copy(io.Discard, zip) // to its checksum
	if err == nil {
		_, err = root.Stat(path.Join(storeFolder, storeFile))
	}
	if err != nil {
		return m, damagedError(err)
	}
	return m, nil
}

func damagedError(err error) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "the backup is damaged or incomplete: %w", err).
		WithCLIHint("use another backup")
}

// extract unpacks an entry. Config is the path of the config in the archive. It may be hidden,
// because the caller says where it goes.
func extract(root *os.Root, head *tar.Header, in io.Reader, config string) error {
	name := path.Clean(head.Name)
	top, _, _ := strings.Cut(name, "/")
	if !filepath.IsLocal(name) || !slices.Contains([]string{homeFolder, storeFolder, configFolder}, top) {
		return fmt.Errorf("it contains %q", head.Name)
	}
	if top == configFolder && isHidden(name) && name != config {
		return fmt.Errorf("it contains the hidden file %q", head.Name)
	}
	if name == top && head.Typeflag != tar.TypeDir {
		return fmt.Errorf("%q is not a folder", head.Name)
	}
	mode := fs.FileMode(head.Mode).Perm() & 0o700
	switch head.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeReg:
	default:
		return fmt.Errorf("%q is neither a file nor a folder", head.Name)
	}
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, in)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// configTargets returns the unpacked files of the config and the paths to which they go. Unless
// force is set, it returns an error if one would replace a file with different content.
func (r Restored) configTargets(staged string, force bool) (map[string]string, error) {
	from := filepath.Join(staged, configFolder)
	targets := map[string]string{}
	if r.ConfigFile == "" {
		return targets, nil
	}
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		target := filepath.Join(filepath.Dir(r.ConfigFile), rel)
		if rel == filepath.Base(r.Config) {
			target = r.ConfigFile
		}
		was, err := os.ReadFile(target)
		if errors.Is(err, fs.ErrNotExist) {
			targets[p] = target
			return nil
		}
		now, nowErr := os.ReadFile(p)
		switch {
		case err != nil || nowErr != nil:
			return errors.Join(err, nowErr)
		case string(was) == string(now):
			return nil
		case !force:
			return conflictError(target)
		}
		targets[p] = target
		return nil
	})
	return targets, err
}

func conflictError(file string) error {
	return toolroom.Errorf(toolroom.CodeConflict, "%s already exists and is another file than that of the backup", file).
		WithCLIHint("name another config with --config, or replace it with --force")
}

// install moves the unpacked files to their targets. The database is last, because a home
// without it has no state.
func install(staged, home, store string, m Manifest, configs map[string]string) error {
	for from, target := range configs {
		data, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if was, err := os.ReadFile(target); err == nil {
			if err := atomicfile.Write(target+replacedSuffix, was, 0o600); err != nil {
				return err
			}
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), atomicfile.Write(target, data, info.Mode().Perm())); err != nil {
			return err
		}
	}
	if err := moveAll(filepath.Join(staged, homeFolder), home); err != nil {
		return err
	}
	database := filepath.Join(staged, storeFolder, storeFile)
	folder := filepath.Dir(store)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	for _, name := range siblingFiles {
		if err := move(filepath.Join(staged, storeFolder, name), filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	return move(database, store)
}

func moveAll(from, into string) error {
	list, err := os.ReadDir(from)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range list {
		if err := move(filepath.Join(from, e.Name()), filepath.Join(into, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// move renames a file or folder, or copies it if the target is on another file system. It
// ignores a missing one.
func move(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if os.Rename(from, to) == nil {
		return nil
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.Join(os.MkdirAll(to, info.Mode().Perm()), moveAll(from, to))
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

func badEntry(file, reason string) error {
	return toolroom.Errorf(toolroom.CodeInvalidArguments, "%s is not a backup of Toolroom: %s", filepath.Base(file), reason).
		WithCLIHint("make one: toolroom backup FILE")
}
