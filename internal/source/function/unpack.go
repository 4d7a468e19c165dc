package function

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/toolroom/toolroom"
)

// LayerStore stores layers and the wheels that they are made of. Layers never change, so several
// processes may use one store.
type LayerStore struct {
	// Folder is the folder of the store.
	Folder string
	// Client downloads wheels.
	Client *http.Client
	// Passwords returns the passwords of indexes; see [IndexPasswords]. Nil means none.
	Passwords func() map[string]*url.Userinfo
}

// Limits of one layer.
const (
	maxWheel    = 512 << 20
	maxUnpacked = 2 << 30
	maxMembers  = 100_000
)

// npmCache is the folder of a store for npm's cache.
const npmCache = "npm"

// Path returns the folder of a layer.
func (s LayerStore) Path(digest string) string { return filepath.Join(s.Folder, "layers", digest) }

// Has reports whether a layer exists.
func (s LayerStore) Has(digest string) bool {
	info, err := os.Stat(s.Path(digest))
	return err == nil && info.IsDir()
}

// Unpack makes the layer of a lock of wheels, unless it exists, and returns its digest.
func (s LayerStore) Unpack(ctx context.Context, lock string) (string, error) {
	wheels, err := parseWheels(lock)
	if err != nil {
		return "", err
	}
	digest := layerDigest(wheels)
	return digest, s.makeLayer(ctx, digest, func(folder string) error {
		left := int64(maxUnpacked)
		for _, w := range wheels {
			file, err := s.fetch(ctx, w, wheelSuffix)
			if err == nil {
				err = unzip(file, folder, &left)
			}
			if err != nil {
				return fmt.Errorf("%s %s: %w", w.Package, w.Version, err)
			}
		}
		return os.Chmod(folder, 0o755)
	})
}

// makeLayer makes a layer, unless it exists. fill fills a temporary folder, which is then renamed.
// A file lock keeps other processes from making the same layer at the same time.
func (s LayerStore) makeLayer(ctx context.Context, digest string, fill func(folder string) error) error {
	if touch(s.Path(digest)) {
		return nil
	}
	for _, folder := range []string{"layers", "wheels"} {
		if err := os.MkdirAll(filepath.Join(s.Folder, folder), 0o755); err != nil {
			return err
		}
	}
	held := flock.New(s.Path(digest) + ".lock")
	if _, err := held.TryLockContext(ctx, lockPause); err != nil {
		return err
	}
	defer held.Unlock()
	if touch(s.Path(digest)) { // another process was faster
		return nil
	}
	making, err := os.MkdirTemp(filepath.Join(s.Folder, "layers"), "making-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(making)
	if err := fill(making); err != nil {
		return err
	}
	if err := os.Rename(making, s.Path(digest)); err != nil && !touch(s.Path(digest)) {
		return err // otherwise another process was faster; Collect has removed its lock file
	}
	return nil
}

// Suffixes of the files of a store, which are named by the SHA-256 of their content.
const (
	wheelSuffix = ".whl"
	sdistSuffix = ".sdist"
	// builtSuffix is the suffix of the results of install scripts.
	builtSuffix = ".built"
)

// file returns the path of a file of the store, and whether the file exists.
func (s LayerStore) file(sum, suffix string) (string, bool) {
	file := filepath.Join(s.Folder, "wheels", sum+suffix)
	return file, touch(file)
}

// fetch returns the path of a wheel or source distribution in the store, which it downloads if
// it is missing.
func (s LayerStore) fetch(ctx context.Context, w wheel, suffix string) (string, error) {
	sum := w.Hashes["sha256"]
	file, there := s.file(sum, suffix)
	if there {
		return file, nil
	}
	from, err := s.openURL(ctx, w)
	if err != nil {
		return "", err
	}
	defer from.Close()
	got, err := s.put(suffix, func(to io.Writer) error {
		n, err := io.Copy(to, io.LimitReader(from, maxWheel+1))
		switch {
		case err != nil:
			return toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the file could not be fetched: %w", err)
		case n > maxWheel:
			return toolroom.Errorf(toolroom.CodeResourceLimit, "the file is larger than %d MiB", maxWheel>>20)
		}
		return nil
	}, func(got, _ string) error {
		if got == sum {
			return nil
		}
		return toolroom.Errorf(toolroom.CodeDenied, "the file has the SHA-256 %s, and the lock says %s: nothing was installed", got, sum).
			WithHint("the index gave another file than it named; push again, from an index that you trust")
	})
	if err != nil {
		return "", err
	}
	file, _ = s.file(got, suffix)
	return file, nil
}

// put stores the output of write, if check accepts its hash and the temporary file with it, and
// returns the hash.
func (s LayerStore) put(suffix string, write func(io.Writer) error, check func(sum, file string) error) (string, error) {
	folder := filepath.Join(s.Folder, "wheels")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	temp, err := os.CreateTemp(folder, "fetching-")
	if err != nil {
		return "", err
	}
	defer os.Remove(temp.Name()) // if it was not renamed
	hash := sha256.New()
	if err := errors.Join(write(io.MultiWriter(temp, hash)), temp.Close()); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(hash.Sum(nil))
	if err := check(sum, temp.Name()); err != nil {
		return "", err
	}
	file, _ := s.file(sum, suffix)
	return sum, os.Rename(temp.Name(), file)
}

func (s LayerStore) openURL(ctx context.Context, w wheel) (io.ReadCloser, error) {
	at, err := url.Parse(w.URL)
	if strings.HasPrefix(w.URL, builtURLPrefix) {
		return nil, toolroom.Errorf(toolroom.CodeNotFound, "the wheel, which was built here, is gone").WithHint("push again, which builds it")
	}
	if err != nil || w.URL == "" {
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "the lock has no address of the wheel")
	}
	switch at.Scheme {
	case "file":
		f, err := os.Open(filepath.FromSlash(at.Path))
		if err != nil {
			return nil, toolroom.Errorf(toolroom.CodeNotFound, "the wheel is gone: %w", err).WithHint("push again, with the folder of wheels")
		}
		return f, nil
	case "https", "http":
	default:
		return nil, toolroom.Errorf(toolroom.CodeUnsupported, "wheels are not fetched by %s", at.Scheme)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client().Do(req)
	if err != nil {
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the file could not be fetched: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the index answered %s for the file %s", resp.Status, at.Redacted()).
				WithHint("%s", passwordHint)
		}
		return nil, toolroom.Errorf(toolroom.CodeUpstreamUnavailable, "the index answered %s for the file", resp.Status)
	}
	return resp.Body, nil
}

// unzip unpacks a wheel. Of its data folder it unpacks only the modules.
func unzip(file, folder string, left *int64) error {
	archive, err := zip.OpenReader(file)
	if err != nil {
		return toolroom.Errorf(toolroom.CodeInvalidArguments, "the wheel is not a zip file: %w", err)
	}
	defer archive.Close()
	if len(archive.File) > maxMembers {
		return toolroom.Errorf(toolroom.CodeResourceLimit, "the wheel has %d files; at most %d are accepted", len(archive.File), maxMembers)
	}
	for _, member := range archive.File {
		name, ok := memberTarget(member.Name)
		if !ok || strings.HasSuffix(member.Name, "/") {
			continue
		}
		if err := checkMember(member, name); err != nil {
			return err
		}
		if err := extract(member, filepath.Join(folder, filepath.FromSlash(name)), left); err != nil {
			return err
		}
	}
	return nil
}

// checkMember returns an error if a member of a wheel, which is unpacked as name, is not a plain
// file or lies outside of the wheel.
func checkMember(member *zip.File, name string) error {
	if filepath.IsLocal(filepath.FromSlash(name)) && member.Mode()&fs.ModeType == 0 {
		return nil
	}
	return toolroom.Errorf(toolroom.CodeDenied, "the wheel has the member %q, which is no plain file inside of it", member.Name)
}

// memberTarget returns the path at which a member of a wheel is unpacked, and whether it is
// needed.
func memberTarget(name string) (string, bool) {
	top, rest, nested := strings.Cut(name, "/")
	if !nested || !strings.HasSuffix(top, ".data") {
		return path.Clean(name), true
	}
	kind, below, ok := strings.Cut(rest, "/")
	return path.Clean(below), ok && (kind == "purelib" || kind == "platlib")
}

func extract(member *zip.File, to string, left *int64) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := member.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		// Two packages of one namespace may have the same file, such as an empty __init__.py.
		if sameContent(in, to) {
			return nil
		}
		return toolroom.Errorf(toolroom.CodeConflict, "two packages have different files %q", member.Name)
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(in, *left+1))
	if *left -= n; *left < 0 {
		err = toolroom.Errorf(toolroom.CodeResourceLimit, "the packages have more than %d MiB", maxUnpacked>>20)
	}
	return errors.Join(err, out.Close())
}

// sameContent reports whether from and a file have the same content.
func sameContent(from io.Reader, file string) bool {
	other, err := os.Open(file)
	if err != nil {
		return false
	}
	defer other.Close()
	a, b := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := io.ReadFull(from, a)
		m, oerr := io.ReadFull(other, b)
		if !bytes.Equal(a[:n], b[:m]) || !errors.Is(err, oerr) {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// minAge is the time since its last use after which an unneeded layer is removed. Before that, a
// push may be about to store a version that needs it, or a build may be using it.
const minAge = time.Hour

func isYoung(info fs.FileInfo) bool { return time.Since(info.ModTime()) < minAge }

// touch reports whether a layer or file exists, and resets its age.
func touch(path string) bool {
	now := time.Now()
	if err := os.Chtimes(path, now, now); err == nil {
		return true
	}
	_, err := os.Stat(path) // of a store that cannot be written
	return err == nil
}

// discard removes an entry of the store. It renames the entry first, so that no other process
// finds a part of a layer.
func (s LayerStore) discard(path string) error {
	discarded, err := os.MkdirTemp(filepath.Dir(path), "making-")
	if err != nil {
		return err
	}
	if err := os.Rename(path, filepath.Join(discarded, "discarded")); err != nil {
		return errors.Join(err, os.Remove(discarded))
	}
	return os.RemoveAll(discarded)
}

// Collect removes the layers and wheels that none of the locks needs, and returns the number of
// removed layers.
func (s LayerStore) Collect(locks []string) (int, error) {
	needed := map[string]bool{}
	npm := false
	for _, lock := range locks {
		if isNPMLock(lock) {
			digest, err := npmLayerDigest(lock)
			if err != nil {
				return 0, err
			}
			npm = true
			needed[digest], needed[readScripts(lock).Result+builtSuffix] = true, true
			continue
		}
		wheels, err := parseWheels(lock)
		if err != nil {
			return 0, err
		}
		needed[layerDigest(wheels)] = true
		for _, w := range wheels {
			needed[w.Hashes["sha256"]+wheelSuffix] = true
		}
	}
	if info, err := os.Stat(filepath.Join(s.Folder, npmCache)); err == nil && !npm && !isYoung(info) {
		if err := os.RemoveAll(filepath.Join(s.Folder, npmCache)); err != nil {
			return 0, err
		}
	}
	removed := 0
	for _, kind := range []string{"layers", "wheels", buildFolder} {
		entries, err := os.ReadDir(filepath.Join(s.Folder, kind))
		if err != nil {
			continue // there is none yet
		}
		for _, e := range entries {
			name := strings.TrimSuffix(e.Name(), ".lock")
			if kind == buildFolder {
				name = s.buildRecord(e.Name()).File
			}
			info, err := e.Info()
			if err != nil || needed[name] || isYoung(info) {
				continue
			}
			if err := s.discard(filepath.Join(s.Folder, kind, e.Name())); err != nil {
				return removed, err
			}
			if e.IsDir() {
				removed++
			}
		}
	}
	return removed, nil
}
