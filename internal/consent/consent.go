// Package consent records which config files of working folders the user trusts. A config
// starts programs and sets rules, so one that came with a folder counts only after the user
// has agreed to its content, and again after each change.
package consent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom/internal/atomicfile"
	"github.com/toolroom/toolroom/internal/config"
)

// maxFile is the maximum size of a file that a config names, in bytes: that of an OpenAPI
// document, the largest of them.
const maxFile = 64 << 20

// maxStore is the maximum size of the record, in bytes.
const maxStore = 16 << 20

// File is a config as it was read once, with the digests of the files that it names.
type File struct {
	// Path is absolute.
	Path string `json:"path"`
	// Digest is the SHA-256 of the text.
	Digest string `json:"digest"`
	// Files are the digests of rules, manifests and OpenAPI documents that the config names,
	// by absolute path. The digest of a file that is missing is empty.
	Files map[string]string `json:"files,omitempty"`
	// Summary says what the config does.
	Summary Summary `json:"summary"`
	// Trusted is when the user agreed.
	Trusted time.Time `json:"trusted,omitzero"`
}

// Inspect returns the File for the text of the config at path. An invalid text returns the
// error of [config.Parse].
func Inspect(path string, text []byte) (File, error) {
	path, err := canonical(path)
	if err != nil {
		return File{}, err
	}
	c, err := config.Parse(path, text)
	if err != nil {
		return File{}, err
	}
	f := File{Path: path, Digest: digest(text), Files: map[string]string{}, Summary: summarize(c)}
	for _, named := range c.Files() {
		if !filepath.IsAbs(named) {
			named = filepath.Join(filepath.Dir(path), named)
		}
		if f.Files[named], err = fileDigest(named); err != nil {
			return File{}, err
		}
	}
	return f, nil
}

// Read is Inspect for the file at path. It also returns the text.
func Read(path string) (File, []byte, error) {
	text, err := readLimited(path, config.MaxFile+1) // Parse reports a file that is too large
	if err != nil {
		return File{}, nil, err
	}
	f, err := Inspect(path, text)
	return f, text, err
}

// canonical returns an absolute path without links in its folders, so that a folder has one
// name.
func canonical(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if folder, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(folder, filepath.Base(path))
	}
	return path, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func fileDigest(path string) (string, error) {
	data, err := readLimited(path, maxFile+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return digest(data), nil
}

func readLimited(path string, most int64) ([]byte, error) {
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() { // a pipe would never end
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// Store is the record in the home.
type Store struct{ path string }

// Open returns the record of a home, which need not exist.
func Open(home string) Store { return Store{filepath.Join(home, "trust", "configs.json")} }

// Path returns the path of the record. Nothing else is in its folder.
func (s Store) Path() string { return s.path }

// List returns all trusted configs, by path.
func (s Store) List() ([]File, error) {
	all, err := s.read()
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(all), func(a, b File) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	}), nil
}

// Last returns the version of the config at path that the user agreed to last.
func (s Store) Last(path string) (File, bool, error) {
	path, err := canonical(path)
	if err != nil {
		return File{}, false, err
	}
	all, err := s.read()
	f, ok := all[path]
	return f, ok, err
}

// Trust records that the user agrees to f.
func (s Store) Trust(f File) error {
	return s.edit(func(all map[string]File) bool {
		f.Trusted = time.Now().UTC().Truncate(time.Second)
		all[f.Path] = f
		return true
	})
}

// Revoke removes the config at path, and reports whether it was trusted.
func (s Store) Revoke(path string) (was bool, err error) {
	path, err = canonical(path)
	if err != nil {
		return false, err
	}
	err = s.edit(func(all map[string]File) bool {
		_, was = all[path]
		delete(all, path)
		return was
	})
	return was, err
}

// Check returns nil if the user agreed to exactly f, else an [*Untrusted].
func (s Store) Check(f File) error {
	last, ok, err := s.Last(f.Path)
	if err != nil {
		return err
	}
	if ok && last.Digest == f.Digest && maps.Equal(last.Files, f.Files) {
		return nil
	}
	e := &Untrusted{File: f}
	if ok {
		e.Last = &last
	}
	return e
}

// CheckNamed returns nil if text is the content that the user agreed to for path, a file
// that the config names.
func (s Store) CheckNamed(configPath, path string, text []byte) error {
	last, ok, err := s.Last(configPath)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(filepath.Dir(last.Path), path)
	}
	known, named := last.Files[path]
	if !named { // the folder of the config may be a link
		if path, err = canonical(path); err != nil {
			return err
		}
		known, named = last.Files[path]
	}
	if ok && named && known == digest(text) {
		return nil
	}
	return changedFile(path)
}

func (s Store) read() (map[string]File, error) {
	data, err := readLimited(s.path, maxStore)
	all := map[string]File{}
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, damaged(s.path, err)
	}
	return all, nil
}

// edit applies change, which reports whether there is something to write.
func (s Store) edit(change func(map[string]File) bool) (err error) {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	lock := flock.New(s.path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fmt.Errorf("lock %s: %w", s.path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	all, err := s.read()
	if err != nil {
		return err
	}
	if !change(all) {
		return nil
	}
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(s.path, append(data, '\n'), 0o600)
}
